"""Train a small network that `torch.compile` has compiled."""

from __future__ import annotations

import torch
from torch import nn


def train() -> None:
    """Train a compiled model for fifteen steps."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = torch.randn(16, 32), torch.randint(0, 10, (16,))
    for _ in range(15):
        optimizer.zero_grad()
        nn.functional.cross_entropy(compiled(inputs), targets).backward()
        optimizer.step()


if __name__ == "__main__":
    train()
