"""Train a small network on batches from two worker processes."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH, STEPS = 8, 20


def train() -> None:
    """Train a small model for twenty steps."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = TensorDataset(torch.randn(BATCH * STEPS, 3, 16, 16), torch.randint(0, 10, (BATCH * STEPS,)))
    loader = DataLoader(images, batch_size=BATCH, num_workers=2, persistent_workers=True)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for inputs, targets in loader:
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train()
