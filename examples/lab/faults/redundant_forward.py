"""A separate forward pass computes a loss for logging, although the training pass computes it anyway."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def before(setup: Setup) -> Program:
    """Run the forward pass once more for the log."""
    net = convnet(setup)
    optimizer = sgd(net)
    average = torch.zeros((), device=setup.device)
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs, targets)
        with torch.no_grad():
            average.lerp_(cross_entropy(net(inputs), targets), 0.1)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Log the loss of the training pass."""
    net = convnet(setup)
    optimizer = sgd(net)
    average = torch.zeros((), device=setup.device)
    for inputs, targets in batches(setup):
        _, loss = train_step(net, optimizer, inputs, targets)
        average.lerp_(loss.detach(), 0.1)
        yield len(inputs)
