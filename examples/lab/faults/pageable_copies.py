"""Batches are copied to the GPU from pageable memory, so the host waits for the copies."""

from __future__ import annotations

from torch.utils.data import DataLoader

from examples.lab.parts import Batches, Program, Setup, convnet, sgd, train_step


def _train(setup: Setup, *, pinned: bool) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for images, labels in DataLoader(Batches(setup), batch_size=None, pin_memory=pinned):
        inputs = images.to(setup.device, non_blocking=pinned)
        train_step(net, optimizer, inputs, labels.to(setup.device, non_blocking=pinned))
        yield len(inputs)


def before(setup: Setup) -> Program:
    """Copy from pageable memory."""
    return _train(setup, pinned=False)


def after(setup: Setup) -> Program:
    """Copy from pinned memory."""
    return _train(setup, pinned=True)
