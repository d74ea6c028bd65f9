"""Correct predictions are counted sample by sample in Python."""

from __future__ import annotations

import torch

from examples.lab.parts import CLASSES, Program, Setup, batches, mlp, sgd, train_step


def before(setup: Setup) -> Program:
    """Count in a loop over samples and classes."""
    net = mlp(setup)
    optimizer = sgd(net)
    hits = [0] * CLASSES
    for inputs, targets in batches(setup):
        logits, _ = train_step(net, optimizer, inputs, targets)
        for sample, target in enumerate(targets):
            best = max(range(CLASSES), key=lambda index, sample=sample: logits[sample, index])
            hits[int(target)] += best == int(target)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Count with two operators."""
    net = mlp(setup)
    optimizer = sgd(net)
    hits = torch.zeros(CLASSES, dtype=torch.long, device=setup.device)
    for inputs, targets in batches(setup):
        logits, _ = train_step(net, optimizer, inputs, targets)
        hits.index_add_(0, targets, (logits.argmax(1) == targets).long())
        yield len(inputs)
