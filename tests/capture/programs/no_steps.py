"""Uses torch, 20 times or as often as it is told to, and makes no steps of any kind."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import sys

import torch

for _ in range(int([*sys.argv, 20][1])):
    torch.mm(torch.ones(8, 8), torch.ones(8, 8))
print("done")
