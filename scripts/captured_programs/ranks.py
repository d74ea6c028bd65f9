"""Train a small network in two processes with two batches per update; gloo averages the gradients."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn


def train() -> None:
    """Train on two ranks for twelve updates."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(12):
        for _ in range(2):
            loss = nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 10, (16,)))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    time.sleep(0.5)  # else a gloo thread that is still releasing its last work waits for the group forever
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
