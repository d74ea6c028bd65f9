"""Batches of two samples, so that nearly the whole step is its fixed cost."""

from __future__ import annotations

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def _train(setup: Setup, batch: int) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup, batch):
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Train on batches of two samples."""
    return _train(setup, 2)


def after(setup: Setup) -> Program:
    """Train on batches of the usual size."""
    return _train(setup, setup.size.batch)
