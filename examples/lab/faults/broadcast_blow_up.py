"""A matrix product written as a broadcast product and a sum: each product of two numbers is written to memory."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train


class Product(nn.Module):
    """A matrix product after a first layer."""

    def __init__(self, setup: Setup, *, broadcasts: bool) -> None:
        super().__init__()
        self.broadcasts, width = broadcasts, 8 * setup.size.width
        self.first, self.head = nn.Linear(3 * setup.size.side**2, width), nn.Linear(width, CLASSES)
        self.weight = nn.Parameter(torch.randn(width, width) / width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = self.first(images.flatten(1))
        if self.broadcasts:
            return self.head((x[:, :, None] * self.weight[None]).sum(1))
        return self.head(x @ self.weight)


def before(setup: Setup) -> Program:
    """A broadcast product and a sum."""
    return train(setup, Product(setup, broadcasts=True).to(setup.device))


def after(setup: Setup) -> Program:
    """One matrix product."""
    return train(setup, Product(setup, broadcasts=False).to(setup.device))
