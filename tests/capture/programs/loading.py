"""Reads loaders whose batches sleep, work, come from a loader within, or from a worker, in epochs of four batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Samples(Dataset[torch.Tensor]):
    """Four batches of one sample each."""

    def __len__(self) -> int:
        return 4


class Slept(Samples):
    """Prepared in 10 ms in which no core works."""

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.zeros(8)


class Worked(Samples):
    """Prepared by 10 ms of work."""

    def __getitem__(self, index: int) -> torch.Tensor:
        since = time.thread_time()
        while time.thread_time() < since + 0.01:
            pass
        return torch.zeros(8)


class Within(IterableDataset[torch.Tensor]):
    """Read from another loader."""

    def __iter__(self) -> Iterator[Any]:
        yield from DataLoader(Slept(), batch_size=None)


if __name__ == "__main__":
    torch.set_num_threads(1)
    net = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loaders = [DataLoader(data, batch_size=None) for data in (Slept(), Worked(), Within())]
    loaders.append(DataLoader(Slept(), batch_size=None, num_workers=1))
    for _ in range(4):
        for inputs in zip(*loaders, strict=True):
            net(sum(inputs)).sum().backward()
            optimizer.step()
