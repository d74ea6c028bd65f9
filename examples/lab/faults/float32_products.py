"""Large matrix products in float32 without tensor cores."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train


def before(setup: Setup) -> Program:
    """Products in float32."""
    return train(setup, mlp(setup))


def after(setup: Setup) -> Program:
    """Products in bfloat16."""
    net = mlp(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        optimizer.zero_grad()
        with torch.autocast(setup.device.type, torch.bfloat16):
            loss = cross_entropy(net(inputs), targets)
        loss.backward()
        optimizer.step()
        yield len(inputs)
