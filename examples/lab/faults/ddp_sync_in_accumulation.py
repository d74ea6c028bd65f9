"""Gradients are averaged over ranks after each pass of an accumulation; once after the last pass is enough."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice

from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from examples.lab.parts import Program, Setup, batches, mlp, sgd

_PASSES = 4


def _train(setup: Setup, *, waits: bool) -> Program:
    net = DistributedDataParallel(mlp(setup))
    optimizer = sgd(net)
    data = batches(setup)
    while True:
        optimizer.zero_grad()
        for number, (inputs, targets) in enumerate(islice(data, _PASSES), 1):
            with net.no_sync() if waits and number < _PASSES else nullcontext():
                (cross_entropy(net(inputs), targets) / _PASSES).backward()
        optimizer.step()
        yield _PASSES * setup.size.batch


def before(setup: Setup) -> Program:
    """Average after each pass."""
    return _train(setup, waits=False)


def after(setup: Setup) -> Program:
    """Average after the last pass only."""
    return _train(setup, waits=True)
