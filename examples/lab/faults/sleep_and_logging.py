"""Each step sleeps, formats tensors as text and flushes a log file."""

from __future__ import annotations

import os
import tempfile
import time

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step

_EVERY = 50


def _train(setup: Setup, every: int) -> Program:
    net = mlp(setup)
    optimizer = sgd(net)
    with tempfile.TemporaryFile("w") as log:
        for step, (inputs, targets) in enumerate(batches(setup), 1):
            logits, loss = train_step(net, optimizer, inputs, targets)
            if step % every == 0:
                log.write(f"{step} {loss} {logits}\n")
                log.flush()
                os.fsync(log.fileno())
                time.sleep(0.002)
            yield len(inputs)


def before(setup: Setup) -> Program:
    """Sleep and log in each step."""
    return _train(setup, 1)


def after(setup: Setup) -> Program:
    """Log every 50 steps."""
    return _train(setup, _EVERY)
