"""Rows of pixels are scaled one by one in a loop of Python."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train


class Rows(nn.Module):
    """Multiply each row of pixels by its own factor."""

    def __init__(self, setup: Setup, *, loops: bool) -> None:
        super().__init__()
        self.loops = loops
        self.scale = nn.Parameter(torch.ones(4 * setup.size.side))
        self.head = nn.Linear(3 * setup.size.side**2, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        scale = self.scale.view(4, -1).mean(0)
        if self.loops:
            rows = [images[:, :, row] * scale[row] + 0.1 for row in range(images.shape[2])]
            return self.head(torch.stack(rows, 2).flatten(1))
        return self.head((images * scale[:, None] + 0.1).flatten(1))


def before(setup: Setup) -> Program:
    """A few operators for each row, in the forward and the backward pass."""
    return train(setup, Rows(setup, loops=True).to(setup.device))


def after(setup: Setup) -> Program:
    """A few operators for all rows together."""
    return train(setup, Rows(setup, loops=False).to(setup.device))
