"""Each batch is made of lists of floats by `torch.tensor`."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def _train(setup: Setup, *, from_lists: bool) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    first, _ = next(batches(setup))
    rows, array = first.flatten(1).tolist(), first.cpu().numpy()
    for _, targets in batches(setup):
        images = torch.tensor(rows).view(first.shape) if from_lists else torch.from_numpy(array)
        train_step(net, optimizer, images.to(setup.device), targets)
        yield len(images)


def before(setup: Setup) -> Program:
    """Convert lists in each step."""
    return _train(setup, from_lists=True)


def after(setup: Setup) -> Program:
    """Share the memory of an array."""
    return _train(setup, from_lists=False)
