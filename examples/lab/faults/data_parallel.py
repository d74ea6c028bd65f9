"""DataParallel on one GPU: it checks every parameter and scatters the batch for nothing."""

from __future__ import annotations

from torch import nn

from examples.lab.parts import Program, Setup, convnet, train


def before(setup: Setup) -> Program:
    """Train the network in the wrapper."""
    devices = [0] if setup.device.type == "cuda" else None
    return train(setup, nn.DataParallel(convnet(setup), device_ids=devices))


def after(setup: Setup) -> Program:
    """Train the network itself."""
    return train(setup, convnet(setup))
