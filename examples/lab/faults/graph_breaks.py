"""A compiled network whose graph breaks in each layer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train


class Block(nn.Module):
    """A layer, optionally with a graph break, as `print` or a library that cannot be traced causes one."""

    def __init__(self, inputs: int, outputs: int, *, breaks: bool) -> None:
        super().__init__()
        self.linear, self.breaks = nn.Linear(inputs, outputs), breaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations."""
        x = self.linear(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return torch.relu(x) * 0.5 + x


class Layers(nn.Module):
    """Blocks in a row."""

    def __init__(self, setup: Setup, *, breaks: bool) -> None:
        super().__init__()
        width = 8 * setup.size.width
        widths = [3 * setup.size.side**2, *[width] * setup.size.layers, CLASSES]
        self.blocks = nn.ModuleList(Block(*pair, breaks=breaks) for pair in pairwise(widths))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = images.flatten(1)
        for block in self.blocks:
            x = block(x)
        return x


def compiled(setup: Setup, net: nn.Module, **how: bool) -> nn.Module:
    """Compile a network; on a CPU without generated code, because breaks and guards cost time in Python only."""
    torch._dynamo.reset()
    return torch.compile(net, backend="inductor" if setup.device.type == "cuda" else "eager", **how)


def before(setup: Setup) -> Program:
    """Two graphs for each layer."""
    return train(setup, compiled(setup, Layers(setup, breaks=True).to(setup.device)))


def after(setup: Setup) -> Program:
    """One graph."""
    return train(setup, compiled(setup, Layers(setup, breaks=False).to(setup.device)))
