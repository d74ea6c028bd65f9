"""Passes over half of the batch, whose gradients are cleared before the optimizer could use them."""

from __future__ import annotations

from torch.nn.functional import cross_entropy

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train, train_step


def before(setup: Setup) -> Program:
    """Run two passes whose gradients are not used."""
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        half = len(inputs) // 2
        for _ in range(2):
            cross_entropy(net(inputs[:half]), targets[:half]).backward()
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Run no unused passes."""
    return train(setup, convnet(setup))
