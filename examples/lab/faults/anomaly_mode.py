"""Autograd's anomaly mode is left on: each operator keeps a stack, each gradient is checked."""

from __future__ import annotations

import warnings

import torch

from examples.lab.parts import Program, Setup, batches, mlp, sgd, train, train_step


def before(setup: Setup) -> Program:
    """Train with anomaly mode on."""
    net = mlp(setup)
    optimizer = sgd(net)
    warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")
    for inputs, targets in batches(setup):
        with torch.autograd.detect_anomaly():
            train_step(net, optimizer, inputs, targets)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Train with anomaly mode off."""
    return train(setup, mlp(setup))
