"""An optimizer that updates parameter by parameter."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train


def _deep(setup: Setup) -> nn.Module:
    """Many small parameters."""
    width = 4 * setup.size.width
    body = [layer for _ in range(4 * setup.size.layers) for layer in (nn.Linear(width, width), nn.LayerNorm(width))]
    first = nn.Linear(3 * setup.size.side**2, width)
    return nn.Sequential(nn.Flatten(), first, *body, nn.Linear(width, CLASSES)).to(setup.device)


def before(setup: Setup) -> Program:
    """A dozen operators for each parameter."""
    net = _deep(setup)
    return train(setup, net, torch.optim.AdamW(net.parameters(), foreach=False))


def after(setup: Setup) -> Program:
    """One operator for all parameters."""
    net = _deep(setup)
    return train(setup, net, torch.optim.AdamW(net.parameters(), fused=True))
