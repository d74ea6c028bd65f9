"""Two forked processes train; prints their exit codes, and how many threads the main one has."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import multiprocessing
import threading

import torch
from torch import nn


def train() -> None:
    torch.set_num_threads(1)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=train) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([process.exitcode for process in processes], threading.active_count())
