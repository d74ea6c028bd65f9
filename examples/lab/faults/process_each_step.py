"""Each step starts a process and waits for its output, as to ask for the state of the machine."""

from __future__ import annotations

import subprocess

from examples.lab.parts import Program, Setup, batches, convnet, sgd, train_step

_RARELY = 50


def _train(setup: Setup, every: int) -> Program:
    net = convnet(setup)
    optimizer = sgd(net)
    for number, (images, targets) in enumerate(batches(setup)):
        train_step(net, optimizer, images, targets)
        if number % every == 0:
            subprocess.run(["/bin/true"], check=True)
        yield len(images)


def before(setup: Setup) -> Program:
    """Start it in each step."""
    return _train(setup, 1)


def after(setup: Setup) -> Program:
    """Start it every fifty steps."""
    return _train(setup, _RARELY)
