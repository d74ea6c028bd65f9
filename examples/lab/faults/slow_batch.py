"""One batch in four takes long; a worker that fetches ahead hides it."""

from __future__ import annotations

import time

import torch

from examples.lab.parts import Batches, Program, Setup, train_from

_WAIT_S_PER_SAMPLE = 0.001


class Uneven(Batches):
    """A dataset in which every fourth batch takes long."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = super().__getitem__(index)
        if index % 4 == 0:
            time.sleep(_WAIT_S_PER_SAMPLE * len(images))
        return images, labels


def before(setup: Setup) -> Program:
    """Load in the main process, so that the training waits."""
    return train_from(setup, Uneven(setup), batch_size=None)


def after(setup: Setup) -> Program:
    """Load in a worker, which waits instead of the training."""
    return train_from(setup, Uneven(setup), batch_size=None, num_workers=1, persistent_workers=True, prefetch_factor=8)
