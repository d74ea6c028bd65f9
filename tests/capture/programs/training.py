"""A small training: STEPS [--workers N] [--raise-at N] [--slow-at N] [--forever] [--range]."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import contextlib
import itertools
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def value(option: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else default


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    steps = int(sys.argv[1])
    data = TensorDataset(torch.randn(steps * 4, 8), torch.randint(0, 2, (steps * 4,)))
    loader = DataLoader(data, batch_size=4, num_workers=value("--workers", 0))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    batches = itertools.chain.from_iterable(itertools.repeat(loader)) if "--forever" in sys.argv else loader
    for number, (inputs, targets) in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        print(f"step {number} {loss.item():.4f}", flush=True)
        if number - value("--slow-at", -9) in {0, 1}:  # two steps: one of them is recorded
            time.sleep(0.4)
        if number == value("--raise-at", -1):
            raise RuntimeError("on purpose")


if __name__ == "__main__":
    with torch.profiler.record_function("all of it") if "--range" in sys.argv else contextlib.nullcontext():
        main()
    print(sys.argv[1:], __name__, __file__, [entry for entry in sys.path if "bootstrap" in entry])
    print("this goes to standard error", file=sys.stderr)
    sys.exit(7)
