"""Reads a loader in worker processes, and never makes an optimizer."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = nn.Linear(8, 2).eval()
    loader = DataLoader(TensorDataset(torch.randn(60, 8)), batch_size=5, num_workers=2, multiprocessing_context="spawn")
    with torch.no_grad():
        for (inputs,) in loader:
            model(inputs)
