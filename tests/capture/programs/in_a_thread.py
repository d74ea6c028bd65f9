"""Trains in a thread, while the main one waits for it."""

from __future__ import annotations

import threading

import torch
from torch import nn


def train() -> None:
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


model = torch.ones(2) + 1
thread = threading.Thread(target=train)
thread.start()
thread.join()
