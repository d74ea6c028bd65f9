"""Garbage is collected in each step, as against memory that runs out."""

from __future__ import annotations

import gc

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def before(setup: Setup) -> Program:
    """Collect in each step."""
    return _train(setup, every=1)


def after(setup: Setup) -> Program:
    """Collect every 50 steps."""
    return _train(setup, every=50)


def _train(setup: Setup, every: int) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for number, (inputs, targets) in enumerate(batches(setup), 1):
        train_step(net, optimizer, inputs, targets)
        if number % every == 0:
            gc.collect()
        yield len(inputs)
