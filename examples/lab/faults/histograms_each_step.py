"""Histograms of all parameters and gradients are computed in each step, as for a log."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step

_RARELY = 50
_BINS = 64


def _train(setup: Setup, every: int) -> Program:
    net = mlp(setup)
    optimizer = sgd(net)
    for number, (images, targets) in enumerate(batches(setup)):
        train_step(net, optimizer, images, targets)
        if number % every == 0:
            for parameter in net.parameters():
                for values in (parameter.detach(), parameter.grad):
                    if values is not None:
                        torch.histc(values, _BINS).tolist()
        yield len(images)


def before(setup: Setup) -> Program:
    """Compute them in each step."""
    return _train(setup, 1)


def after(setup: Setup) -> Program:
    """Compute them every fifty steps."""
    return _train(setup, _RARELY)
