"""A training of BATCHES batches whose optimizer is `compiled`, or `idle`: it never steps."""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

kind, batches = sys.argv[1], int(sys.argv[2])
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
update = torch.compile(optimizer.step, backend="eager") if kind == "compiled" else lambda: None
data = TensorDataset(torch.randn(4 * batches, 8), torch.randint(0, 2, (4 * batches,)))
for inputs, targets in DataLoader(data, batch_size=4):
    nn.functional.cross_entropy(model(inputs), targets).backward()
    update()
    optimizer.zero_grad()
