"""Each step takes the first batch of a loader that it begins anew, with `next(iter(loader))`."""

from __future__ import annotations

from torch.utils.data import DataLoader

from examples.lab.parts import Images, Program, Setup, convnet, sgd, train_from, train_step

_SAMPLES = 20_000


def before(setup: Setup) -> Program:
    """Shuffle all samples for each batch."""
    net = convnet(setup)
    optimizer = sgd(net)
    loader = DataLoader(Images(setup, _SAMPLES), batch_size=setup.size.batch, shuffle=True)
    while True:
        images, targets = next(iter(loader))
        train_step(net, optimizer, images.to(setup.device), targets.to(setup.device))
        yield len(images)


def after(setup: Setup) -> Program:
    """Take all batches of a loader."""
    return train_from(setup, Images(setup, _SAMPLES), shuffle=True)
