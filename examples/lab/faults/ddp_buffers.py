"""DDP sends the buffers of all batch norms before each forward pass."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from examples.lab.parts import CLASSES, Program, Setup, train


def _network(setup: Setup) -> nn.Module:
    """Small layers, each with three buffers."""
    width = 2 * setup.size.width
    body = [layer for _ in range(2 * setup.size.layers) for layer in (nn.Linear(width, width), nn.BatchNorm1d(width))]
    first = nn.Linear(3 * setup.size.side**2, width)
    return nn.Sequential(nn.Flatten(), first, *body, nn.Linear(width, CLASSES)).to(setup.device)


def before(setup: Setup) -> Program:
    """Send the buffers in each step."""
    return train(setup, DistributedDataParallel(_network(setup)))


def after(setup: Setup) -> Program:
    """Never send the buffers."""
    return train(setup, DistributedDataParallel(_network(setup), broadcast_buffers=False))
