"""Inference whose small kernels are launched one by one, more slowly than they run."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import Program, Setup, batches, mlp


def _network(setup: Setup) -> nn.Module:
    """A stack of small layers: a few microseconds of work for each launch."""
    return nn.Sequential(mlp(setup), *(nn.Linear(10, 10, device=setup.device) for _ in range(50))).eval()


def before(setup: Setup) -> Program:
    """Launch each kernel."""
    net = _network(setup)
    with torch.inference_mode():
        for inputs, _ in batches(setup, 8):
            net(inputs).argmax(1)
            yield len(inputs)


def after(setup: Setup) -> Program:
    """Capture the kernels once as a CUDA graph, and launch that."""
    if setup.device.type == "cpu":  # there are no graphs, and nothing is judged
        yield from before(setup)
    net = _network(setup)
    with torch.inference_mode():
        kept = next(batches(setup, 8))[0].clone()
        for _ in range(3):  # libraries choose their kernels before a capture
            net(kept).argmax(1)
        torch.cuda.synchronize(setup.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(kept).argmax(1)
        for inputs, _ in batches(setup, 8):
            kept.copy_(inputs)
            graph.replay()
            yield len(inputs)
