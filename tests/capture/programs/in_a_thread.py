"""Trains in a thread, while the main one waits for it; with --without-steps it only multiplies."""

from __future__ import annotations

import sys
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


def multiply() -> None:
    for _ in range(3):
        torch.mm(torch.ones(8, 8), torch.ones(8, 8))


model = torch.ones(2) + 1
thread = threading.Thread(target=multiply if "--without-steps" in sys.argv else train)
thread.start()
thread.join()
