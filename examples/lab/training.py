"""The training: synthetic data, one network, one loop. Every field of `Training` is a place for a fault."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from examples.lab import networks

CLASSES = 10


@dataclass(frozen=True)
class Size:
    """How much work a step is."""

    batch: int
    side: int
    """Pixels of an image, each way."""
    width: int
    """Channels and features of the networks."""


CPU = Size(batch=32, side=24, width=8)
GPU = Size(batch=128, side=64, width=64)


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Noise and classes, without an end; each sample is made when it is asked for."""

    def __init__(self, size: Size) -> None:
        self._image = torch.randn(3, size.side, size.side)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._image, index % CLASSES


@dataclass(frozen=True)
class Moment:
    """What a fault may see: a step after its batch has come and before anything is computed."""

    device: torch.device
    net: nn.Module
    criterion: nn.Module
    inputs: torch.Tensor
    targets: torch.Tensor
    kept: list[torch.Tensor]
    """What outlives the step."""


def nothing(moment: Moment) -> None:
    """No fault."""


def as_it_is(net: nn.Module) -> nn.Module:
    """No wrapper."""
    return net


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The usual optimizer."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


@dataclass(frozen=True)
class Training:
    """The training without any fault."""

    network: Callable[[Size], nn.Module] = networks.convolutions
    wrap: Callable[[nn.Module], nn.Module] = as_it_is
    data: Callable[[Size], Dataset[Any]] = Images
    loader: Mapping[str, Any] = field(default_factory=dict)
    """Options of the `DataLoader`."""
    non_blocking: bool = False
    beside: Callable[[Moment], None] = nothing
    """Work before the pass that trains."""
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = sgd
    autocast: torch.dtype | None = None

    def run(self, device: torch.device, size: Size) -> Generator[int, None, None]:
        """Train, without an end; yields the number of samples after each step."""
        torch.manual_seed(0)
        net = self.wrap(self.network(size).to(device))
        criterion, optimizer = nn.CrossEntropyLoss(), self.optimizer(net.parameters())
        precision = nullcontext() if self.autocast is None else torch.autocast(device.type, self.autocast)
        kept: list[torch.Tensor] = []
        for images, labels in DataLoader(self.data(size), batch_size=size.batch, **self.loader):
            inputs = images.to(device, non_blocking=self.non_blocking)
            targets = labels.to(device, non_blocking=self.non_blocking)
            self.beside(Moment(device, net, criterion, inputs, targets, kept))
            optimizer.zero_grad()
            with precision:
                loss = criterion(net(inputs), targets)
            loss.backward()
            optimizer.step()
            yield size.batch
