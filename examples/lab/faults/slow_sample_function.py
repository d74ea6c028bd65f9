"""Each sample is normalized by a loop in Python over its pixels, which workers would only spread."""

from __future__ import annotations

import torch

from examples.lab.parts import Images, Program, Setup, train_from


class Looped(Images):
    """Normalize pixel by pixel."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = super().__getitem__(index)
        pixels = [(pixel - 0.5) / 0.25 for pixel in image.flatten().tolist()]
        return torch.tensor(pixels).view_as(image), label


class Whole(Images):
    """Normalize the image as a whole."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = super().__getitem__(index)
        return (image - 0.5) / 0.25, label


def before(setup: Setup) -> Program:
    """Load samples that take a loop."""
    return train_from(setup, Looped(setup))


def after(setup: Setup) -> Program:
    """Load samples that take two operators."""
    return train_from(setup, Whole(setup))
