"""A mask is made on the CPU and moved to the GPU in each step."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def _train(setup: Setup, maker: torch.device) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        mask = torch.ones(inputs.shape, device=maker).to(setup.device)
        train_step(net, optimizer, inputs * mask, targets)
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Make the mask on the CPU and move it."""
    return _train(setup, torch.device("cpu"))


def after(setup: Setup) -> Program:
    """Make the mask on the GPU."""
    return _train(setup, setup.device)
