"""Rows of a matrix are chosen by a product with one-hot vectors."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train_step


class _OneHot(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(words, width))

    def forward(self, chosen: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot(chosen, len(self.weight)).float() @ self.weight


def before(setup: Setup) -> Program:
    """Multiply one-hot vectors by the matrix."""
    return _train(setup, _OneHot)


def after(setup: Setup) -> Program:
    """Take the rows."""
    return _train(setup, nn.Embedding)


def _train(setup: Setup, kind: type[_OneHot] | type[nn.Embedding]) -> Program:
    size = setup.size
    table = kind(80 * size.width, 4 * size.width)
    net = nn.Sequential(table, nn.Flatten(), nn.Linear(4 * size.width * size.tokens, CLASSES)).to(setup.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    words = torch.randint(80 * size.width, (size.batch, size.tokens), device=setup.device)
    classes = torch.arange(size.batch, device=setup.device) % CLASSES
    while True:
        train_step(net, optimizer, words, classes)
        yield size.batch
