"""The program waits for the whole GPU five times per step, between pieces of work."""

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
    """Wait for the GPU after each piece of work."""
    return _train(setup, waits=torch.cuda.is_available())


def after(setup: Setup) -> Program:
    """Never wait for the GPU."""
    return _train(setup, waits=False)
