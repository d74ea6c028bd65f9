"""The library: measures, annotates, records to the folder that is named."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from traceanalyzer.capture import ThroughputMeter, annotate, profile

model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@annotate("one step")
def step() -> None:
    with annotate("forward"):
        loss = model(torch.randn(4, 8)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def loop(prof: Any, steps: int) -> None:
    for _ in range(steps):
        step()
        meter.step(samples=4)
        prof.step()


@profile(sys.argv[1], steps=2, warmup=2)
def train() -> str:
    for _ in range(6):
        step()
    return "trained"


meter = ThroughputMeter(warmup=1)
with profile(sys.argv[1], steps=3, warmup=2, profile_memory=True) as marked:
    loop(marked, 14)
print(marked.trace)
with profile(sys.argv[1], steps=2, warmup=0) as at_once:
    loop(at_once, 4)
print(at_once.trace)
print(train())
try:
    with profile(sys.argv[1], steps=9, warmup=1) as broken:
        loop(broken, 3)
        raise ValueError
except ValueError:
    print(broken.trace)
with profile(sys.argv[1]) as unmarked:
    torch.ones(3) + 1
print(unmarked.trace)
print(meter.plain.steps, meter.profiled.steps, meter.plain.samples)
