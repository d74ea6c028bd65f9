"""DDP with a bucket, and so a collective, for nearly each gradient."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel

from examples.lab.parts import Program, Setup, mlp, train


def before(setup: Setup) -> Program:
    """Buckets of one kilobyte."""
    return train(setup, DistributedDataParallel(mlp(setup), bucket_cap_mb=0.001))


def after(setup: Setup) -> Program:
    """Buckets of 25 MB, the default."""
    return train(setup, DistributedDataParallel(mlp(setup)))
