"""One of two ranks is late in each step, and the other waits for it."""

from __future__ import annotations

import time

from torch.nn.parallel import DistributedDataParallel

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train, train_step

_LATE_S = 0.01


def before(setup: Setup) -> Program:
    """Rank 1 is ten milliseconds late in each step."""
    net = DistributedDataParallel(mlp(setup))
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        if setup.rank == 1:
            time.sleep(_LATE_S)
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """No rank is late."""
    return train(setup, DistributedDataParallel(mlp(setup)))
