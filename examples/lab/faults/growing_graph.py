"""A moving average of features is not detached, so each step's graph contains those of all steps before."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, batches

_RESTART = 40
"""Steps after which the average starts anew, so that the program does not become slower without end."""


def before(setup: Setup) -> Program:
    """Keep the graph of the average."""
    return _train(setup, detach=False)


def after(setup: Setup) -> Program:
    """Detach the average."""
    return _train(setup, detach=True)


def _train(setup: Setup, *, detach: bool) -> Program:
    inner = 8 * setup.size.width
    encoder = nn.Linear(3 * setup.size.side**2, inner).to(setup.device)
    head = nn.Linear(inner, CLASSES).to(setup.device)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.01)
    average = torch.zeros(inner, device=setup.device)
    for number, (inputs, targets) in enumerate(batches(setup)):
        if number % _RESTART == 0:
            average = torch.zeros(inner, device=setup.device)
        optimizer.zero_grad()
        features = encoder(inputs.flatten(1))
        average = 0.9 * (average.detach() if detach else average) + 0.1 * features.mean(0)
        distance = (features - average).square().mean()
        loss = nn.functional.cross_entropy(head(features.relu()), targets) + distance
        loss.backward(retain_graph=not detach)
        optimizer.step()
        yield len(inputs)
