"""A large embedding has a dense gradient, although a batch uses few of its rows."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train_step


def before(setup: Setup) -> Program:
    """The gradient has as many rows as the embedding."""
    return _train(setup, sparse=False)


def after(setup: Setup) -> Program:
    """The gradient has the rows that were used."""
    return _train(setup, sparse=True)


def _train(setup: Setup, *, sparse: bool) -> Program:
    size = setup.size
    table = nn.Embedding(10_000 * size.batch, 4 * size.width, sparse=sparse)
    net = nn.Sequential(table, nn.Flatten(), nn.Linear(4 * size.width * size.tokens, CLASSES)).to(setup.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    words = torch.randint(table.num_embeddings, (size.batch, size.tokens), device=setup.device)
    classes = torch.arange(size.batch, device=setup.device) % CLASSES
    while True:
        train_step(net, optimizer, words, classes)
        yield size.batch
