"""Images are normalized one by one within the step; a few operators could normalize the whole batch."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def before(setup: Setup) -> Program:
    """Normalize image by image, channel by channel."""
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        images = []
        for image in inputs:
            channels = [(channel - channel.mean()) / channel.std() for channel in image]
            images.append(torch.stack(channels))
        train_step(net, optimizer, torch.stack(images), targets)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Normalize the whole batch at once."""
    net = convnet(setup)
    optimizer = sgd(net)
    for inputs, targets in batches(setup):
        std, mean = torch.std_mean(inputs, (2, 3), keepdim=True)
        train_step(net, optimizer, (inputs - mean) / std, targets)
        yield len(inputs)
