"""Each sample waits, as for a network; workers wait in parallel."""

from __future__ import annotations

import time

import torch

from examples.lab.parts import Images, Program, Setup, train_from

_WAIT_S = 0.001
_WORKERS = 5
"""As many as the advice starts for small steps, which take a fifth of the time to load; for large ones two would do."""


class Waiting(Images):
    """Prepare a sample in a millisecond in which no core works."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(_WAIT_S)
        return super().__getitem__(index)


def before(setup: Setup) -> Program:
    """Load in the main process."""
    return train_from(setup, Waiting(setup))


def after(setup: Setup) -> Program:
    """Load in workers that fetch ahead."""
    return train_from(setup, Waiting(setup), num_workers=_WORKERS, persistent_workers=True, prefetch_factor=4)
