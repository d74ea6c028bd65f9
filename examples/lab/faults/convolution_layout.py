"""Activations change their layout in memory around each convolution."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


class Relayout(nn.Module):
    """Write the input to memory in another order of axes."""

    def __init__(self, memory_format: torch.memory_format) -> None:
        super().__init__()
        self.memory_format = memory_format

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same values in the other layout."""
        return x.contiguous(memory_format=self.memory_format)


def _train(setup: Setup, net: nn.Module) -> Program:
    net = net.to(memory_format=torch.channels_last)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs.contiguous(memory_format=torch.channels_last), targets)
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Change to contiguous after each block, and back before the next one."""
    layers: list[nn.Module] = []
    for part in convnet(setup):
        layers.append(part)
        if isinstance(part, nn.Sequential):
            layers += [Relayout(torch.contiguous_format), Relayout(torch.channels_last)]
    return _train(setup, nn.Sequential(*layers))


def after(setup: Setup) -> Program:
    """Use channels-last everywhere."""
    return _train(setup, convnet(setup))
