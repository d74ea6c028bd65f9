"""A causal mask is built entry by entry in Python in each step."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step


def _train(setup: Setup, *, in_python: bool) -> Program:
    net = mlp(setup)
    optimizer = sgd(net)
    length = setup.size.tokens
    for images, targets in batches(setup):
        if in_python:
            rows = [[0.0 if column <= row else -1.0 for column in range(length)] for row in range(length)]
            mask = torch.tensor(rows, device=setup.device)
        else:
            mask = torch.full((length, length), -1.0, device=setup.device).triu(1)
        train_step(net, optimizer, images + mask.mean(), targets)
        yield len(images)


def before(setup: Setup) -> Program:
    """Build it in Python."""
    return _train(setup, in_python=True)


def after(setup: Setup) -> Program:
    """Build it with two operators."""
    return _train(setup, in_python=False)
