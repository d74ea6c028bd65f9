"""Two ranks on gloo: under torchrun, or spawned with `--spawn`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn


def train(rank: int, init_method: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    time.sleep(0.5)  # a thread of gloo that still lets go of its last work would wait for the end of the group forever
    dist.destroy_process_group()


if __name__ == "__main__":
    if "--spawn" in sys.argv:
        torch.multiprocessing.spawn(train, args=(f"file://{Path(sys.argv[2]).absolute()}",), nprocs=2)
    else:
        train(int(os.environ["RANK"]), "env://")
