"""Norms of all gradients are read on the host in every step."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step

_EVERY = 50


def before(setup: Setup) -> Program:
    """Read the norms one by one, in every step."""
    net = mlp(setup)
    optimizer = sgd(net)
    log: list[dict[str, float]] = []
    for inputs, targets in batches(setup):
        _, loss = train_step(net, optimizer, inputs, targets)
        norms = {name: weight.grad.norm().item() for name, weight in net.named_parameters() if weight.grad is not None}
        log.append(norms | {"loss": loss.item()})
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Read one norm over all gradients, every 50 steps."""
    net = mlp(setup)
    optimizer = sgd(net)
    log: list[float] = []
    for step, (inputs, targets) in enumerate(batches(setup), 1):
        train_step(net, optimizer, inputs, targets)
        if step % _EVERY == 0:
            grads = [weight.grad for weight in net.parameters() if weight.grad is not None]
            log.append(torch.nn.utils.get_total_norm(grads).item())
        yield len(inputs)
