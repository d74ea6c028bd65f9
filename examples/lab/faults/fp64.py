"""The network computes in float64."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step


def _train(setup: Setup, dtype: torch.dtype) -> Program:
    net = mlp(setup).to(dtype)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        train_step(net, optimizer, inputs.to(dtype), targets)
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Train in float64: twice the bytes, and half the numbers per instruction."""
    return _train(setup, torch.float64)


def after(setup: Setup) -> Program:
    """Train in float32."""
    return _train(setup, torch.float32)
