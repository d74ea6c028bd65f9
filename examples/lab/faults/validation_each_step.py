"""The same validation runs in each step."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, batches, convnet, sgd, train_step


def before(setup: Setup) -> Program:
    """Validate in each step."""
    return _train(setup, every=1)


def after(setup: Setup) -> Program:
    """Validate every 50 steps."""
    return _train(setup, every=50)


def _train(setup: Setup, every: int) -> Program:
    size = setup.size
    net = convnet(setup)
    optimizer = sgd(net)
    images = torch.randn(4, 2 * size.batch, 3, size.side, size.side, device=setup.device)
    classes = torch.arange(2 * size.batch, device=setup.device) % CLASSES
    for number, (inputs, targets) in enumerate(batches(setup), 1):
        train_step(net, optimizer, inputs, targets)
        if number % every == 0:
            _validate(net, images, classes)
        yield len(inputs)


@torch.no_grad()
def _validate(net: nn.Module, images: torch.Tensor, classes: torch.Tensor) -> float:
    net.eval()
    losses = [nn.functional.cross_entropy(net(batch), classes) for batch in images]
    net.train()
    return torch.stack(losses).mean().item()
