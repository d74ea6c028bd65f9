"""Building blocks of the lab's programs: sizes, networks, data, and the usual step."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10

Program = Generator[int, None, None]
"""An endless training or inference; yields the number of samples after each step."""


@dataclass(frozen=True)
class Size:
    """The amount of work in a step."""

    batch: int
    side: int
    """Height and width of an image in pixels."""
    width: int
    """Channels of convolutions; an eighth of the features of linear layers."""
    layers: int
    tokens: int
    """Length of a sequence."""


SIZES = {
    "cpu": {"small": Size(16, 16, 16, 4, 64), "large": Size(32, 20, 24, 8, 96)},
    "cuda": {"small": Size(64, 32, 64, 8, 256), "large": Size(256, 64, 128, 16, 512)},
}
"""Sizes by kind of device and name."""


@dataclass(frozen=True)
class Setup:
    """The device and the size of a program."""

    device: torch.device
    size: Size
    rank: int = 0

    @property
    def workers(self) -> int:
        """Number of workers: two on a CPU, which fit beside the training, or as many as a GPU needs."""
        return 2 if self.device.type == "cpu" else min(8, os.cpu_count() or 1)


class Batches(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Prepared batches of noise: a dataset that costs nothing."""

    def __init__(self, setup: Setup, batch: int | None = None) -> None:
        size = setup.size
        self._images = torch.randn(batch or size.batch, 3, size.side, size.side)
        self._labels = torch.arange(batch or size.batch) % CLASSES

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._images, self._labels


class Images(Dataset[tuple[torch.Tensor, int]]):
    """A dataset of single samples: noise and a class."""

    def __init__(self, setup: Setup, length: int = 1_000_000) -> None:
        self.side, self._length = setup.size.side, length
        self._image = torch.randn(3, self.side, self.side)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._image, index % CLASSES


def batches(setup: Setup, batch: int | None = None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches on the device, from a loader that costs almost nothing."""
    for images, labels in DataLoader(Batches(setup, batch), batch_size=None):
        yield images.to(setup.device), labels.to(setup.device)


def convnet(setup: Setup, *, bias: bool = False) -> nn.Module:
    """A network of convolutions with batch norm, a mean, and a classifier."""
    width = setup.size.width

    def block(inputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, width, 3, padding=1, bias=bias), nn.BatchNorm2d(width), nn.ReLU())

    body = [block(width) for _ in range(setup.size.layers // 4)]
    layers = (block(3), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))
    return nn.Sequential(*layers).to(setup.device)


def mlp(setup: Setup) -> nn.Sequential:
    """A network of linear layers over the pixels."""
    size, inner = setup.size, 8 * setup.size.width
    body = [layer for _ in range(size.layers) for layer in (nn.Linear(inner, inner), nn.ReLU())]
    first = nn.Linear(3 * size.side**2, inner)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), *body, nn.Linear(inner, CLASSES)).to(setup.device)


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    """The usual optimizer."""
    return torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)


def train_step(
    net: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One update of the parameters; returns logits and loss."""
    optimizer.zero_grad()
    logits = net(inputs)
    loss = nn.functional.cross_entropy(logits, targets)
    loss.backward()
    optimizer.step()
    return logits, loss


def train(setup: Setup, net: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Program:
    """The usual training of a network."""
    optimizer = optimizer or sgd(net)
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def train_from(setup: Setup, dataset: Dataset[Any], **loader: Any) -> Program:
    """The usual training, with the loader that a fault is about."""
    net = convnet(setup)
    optimizer = sgd(net)
    source = DataLoader(dataset, **{"batch_size": setup.size.batch} | loader)
    while True:  # epochs of one loader, so that its workers can outlive them
        for images, labels in source:
            train_step(net, optimizer, images.to(setup.device), labels.to(setup.device))
            yield len(images)
