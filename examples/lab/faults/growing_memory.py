"""Every batch is kept on the GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def _train(setup: Setup, part: Callable[[torch.Tensor], torch.Tensor]) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    kept: list[torch.Tensor] = []
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs, targets)
        kept.append(part(inputs))
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Keep whole batches."""
    return _train(setup, torch.clone)


def after(setup: Setup) -> Program:
    """Keep only the mean of each batch."""
    return _train(setup, torch.mean)
