"""Ten copies of each batch that nobody uses."""

from __future__ import annotations

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train, train_step


def before(setup: Setup) -> Program:
    """Train with the copies."""
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        copies = [inputs.clone() for _ in range(10)]
        del copies
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Train without the copies."""
    return train(setup, convnet(setup))
