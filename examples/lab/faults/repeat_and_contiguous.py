"""A bias is repeated, and every order of axes is written to memory."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train


class Copies(nn.Module):
    """A bias for each channel, a norm over channels, and a mean."""

    def __init__(self, setup: Setup, *, copies: bool) -> None:
        super().__init__()
        width = setup.size.width
        self.copies = copies
        self.first, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Linear(width, CLASSES)
        self.bias, self.norm = nn.Parameter(torch.zeros(1, width, 1, 1)), nn.LayerNorm(width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = self.first(images)
        if self.copies:
            x = x + self.bias.repeat(x.shape[0], 1, *x.shape[2:])
            x = self.norm(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()
            return self.head(x.flatten(2).permute(2, 0, 1).contiguous().mean(0))
        return self.head(self.norm((x + self.bias).permute(0, 2, 3, 1)).mean((1, 2)))


def before(setup: Setup) -> Program:
    """Train with the copies."""
    return train(setup, Copies(setup, copies=True).to(setup.device))


def after(setup: Setup) -> Program:
    """Train without the copies."""
    return train(setup, Copies(setup, copies=False).to(setup.device))
