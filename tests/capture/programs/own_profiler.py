"""A training that profiles two steps itself, to the file that is named: 4 and 5, or after --wait N."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import sys

import torch
from torch import nn

model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.profiler.profile(
    schedule=torch.profiler.schedule(
        wait=int(sys.argv[4]) if "--wait" in sys.argv else 3, warmup=1, active=2, repeat=1
    ),
    on_trace_ready=lambda done: done.export_chrome_trace(sys.argv[1]),
) as prof:
    for _ in range(int(sys.argv[2])):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        prof.step()
print("profiled")
