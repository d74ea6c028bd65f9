"""Gradients are set to zero and then added to, although they could be replaced."""

from __future__ import annotations

from torch.nn.functional import cross_entropy

from examples.lab.parts import Program, Setup, batches, mlp, sgd


def _train(setup: Setup, *, to_none: bool) -> Program:
    net = mlp(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        optimizer.zero_grad(set_to_none=to_none)
        cross_entropy(net(inputs), targets).backward()
        optimizer.step()
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Set gradients to zero."""
    return _train(setup, to_none=False)


def after(setup: Setup) -> Program:
    """Set gradients to None, the default."""
    return _train(setup, to_none=True)
