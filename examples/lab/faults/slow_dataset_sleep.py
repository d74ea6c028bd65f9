"""Each sample waits, as for a network; workers wait at the same time."""

from __future__ import annotations

import time

import torch

from examples.lab.parts import Images, Program, Setup, train_from

_WAIT_S = 0.001


class Waiting(Images):
    """A sample takes a millisecond in which no core works."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(_WAIT_S)
        return super().__getitem__(index)


def before(setup: Setup) -> Program:
    """On the main process."""
    return train_from(setup, Waiting(setup))


def after(setup: Setup) -> Program:
    """In workers that fetch ahead."""
    return train_from(setup, Waiting(setup), num_workers=setup.workers, persistent_workers=True, prefetch_factor=4)
