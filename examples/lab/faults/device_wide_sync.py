"""The whole GPU is waited for, five times between pieces of work."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def _train(setup: Setup, *, waits: bool) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        for _ in range(5):
            inputs.sum()
            if waits:
                torch.cuda.synchronize(setup.device)
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def before(setup: Setup) -> Program:
    """It is waited for."""
    return _train(setup, waits=torch.cuda.is_available())


def after(setup: Setup) -> Program:
    """It is not."""
    return _train(setup, waits=False)
