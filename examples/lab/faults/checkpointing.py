"""Activations are computed again in the backward pass although memory is free."""

from __future__ import annotations

from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train


def before(setup: Setup) -> Program:
    """Two segments are computed again in the backward pass."""
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        optimizer.zero_grad()
        logits = checkpoint_sequential(net, 2, inputs, use_reentrant=False)
        nn.functional.cross_entropy(logits, targets).backward()
        optimizer.step()
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Each segment is computed once."""
    return train(setup, convnet(setup))
