"""Samples are transformed in the main process; the fix is one worker."""

from __future__ import annotations

import torch

from examples.lab.parts import Images, Program, Setup, train_from


class Transformed(Images):
    """The usual transforms: flip, crop, normalize."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = super().__getitem__(index)
        padded = torch.nn.functional.pad(image.flip(-1), (2, 2, 2, 2))
        cropped = padded[:, 1 : 1 + self.side, 2 : 2 + self.side]
        return (cropped - cropped.mean((1, 2), keepdim=True)) / cropped.std((1, 2), keepdim=True), label


def before(setup: Setup) -> Program:
    """Transform in the main process."""
    return train_from(setup, Transformed(setup))


def after(setup: Setup) -> Program:
    """Transform in a worker."""
    return train_from(setup, Transformed(setup), num_workers=1, persistent_workers=True)
