"""Batches of two samples, in which the fixed cost of a step is nearly all of it."""

from __future__ import annotations

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def _train(setup: Setup, batch: int) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup, batch):
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Two samples."""
    return _train(setup, 2)


def after(setup: Setup) -> Program:
    """The batch of the other programs."""
    return _train(setup, setup.size.batch)
