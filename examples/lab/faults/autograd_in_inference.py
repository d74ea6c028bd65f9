"""Inference that records a graph for a backward pass that never comes."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, batches, convnet


def before(setup: Setup) -> Program:
    """Inference with autograd."""
    net = convnet(setup).eval()
    for inputs, _ in batches(setup):
        net(inputs).argmax(1)
        yield len(inputs)


def after(setup: Setup) -> Program:
    """Inference without autograd."""
    net = convnet(setup).eval()
    for inputs, _ in batches(setup):
        with torch.inference_mode():
            net(inputs).argmax(1)
        yield len(inputs)
