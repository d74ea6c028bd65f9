"""Uses torch, and makes no steps of any kind."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import torch

for _ in range(20):
    torch.mm(torch.ones(8, 8), torch.ones(8, 8))
print("done")
