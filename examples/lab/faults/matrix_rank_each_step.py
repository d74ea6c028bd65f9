"""The rank of each matrix of parameters is computed in each step."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step


def before(setup: Setup) -> Program:
    """Compute ranks in each step."""
    return _train(setup, every=1)


def after(setup: Setup) -> Program:
    """Compute ranks every 50 steps."""
    return _train(setup, every=50)


def _train(setup: Setup, every: int) -> Program:
    net = mlp(setup)
    optimizer = sgd(net)
    for number, (inputs, targets) in enumerate(batches(setup), 1):
        train_step(net, optimizer, inputs, targets)
        if number % every == 0:
            matrices = [parameter.detach() for parameter in net.parameters() if parameter.ndim == 2]
            sum(torch.linalg.matrix_rank(matrix).item() for matrix in matrices)
        yield len(inputs)
