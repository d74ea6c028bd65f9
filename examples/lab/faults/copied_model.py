"""The model is copied in each step for a moving average of its parameters."""

from __future__ import annotations

import copy

import torch

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step

_KEPT = 0.99


def before(setup: Setup) -> Program:
    """Make a deep copy in each step, and mix it into the average."""
    net = convnet(setup)
    optimizer = sgd(net)
    average = copy.deepcopy(net)
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs, targets)
        now = copy.deepcopy(net)
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(now.parameters()), 1 - _KEPT)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Mix the parameters themselves into the average."""
    net = convnet(setup)
    optimizer = sgd(net)
    average = copy.deepcopy(net)
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs, targets)
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - _KEPT)
        yield len(inputs)
