"""Each sample takes Python work; workers do it in parallel with the training, if there are free cores."""

from __future__ import annotations

import torch

from examples.lab.parts import Images, Program, Setup, train_from


class Worked(Images):
    """Prepare a sample with a loop over its pixels, as augmentation in Python does."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = super().__getitem__(index)
        brightness = sum((index * pixel) % 255 for pixel in range(8 * self.side**2))
        return image + brightness / 1e9, label


def before(setup: Setup) -> Program:
    """Load in the main process."""
    return train_from(setup, Worked(setup))


def after(setup: Setup) -> Program:
    """Load in workers."""
    return train_from(setup, Worked(setup), num_workers=setup.workers, persistent_workers=True)
