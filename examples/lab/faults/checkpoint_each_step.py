"""The whole state is written to a file in each step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from torch import nn

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step


def before(setup: Setup) -> Program:
    """Save in each step."""
    return _train(setup, every=1)


def after(setup: Setup) -> Program:
    """Save every 50 steps."""
    return _train(setup, every=50)


def _train(setup: Setup, every: int) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        for number, (inputs, targets) in enumerate(batches(setup), 1):
            train_step(net, optimizer, inputs, targets)
            if number % every == 0:
                _save(net, optimizer, path)
            yield len(inputs)


def _save(net: nn.Module, optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Write everything, and wait until the disk has it."""
    with path.open("wb") as file:
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
