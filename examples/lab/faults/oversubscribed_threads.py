"""Many more threads than cores work at each operator."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, mlp, train

_THREADS = 16


def before(setup: Setup) -> Program:
    """16 threads."""
    usual = torch.get_num_threads()
    torch.set_num_threads(_THREADS)
    try:
        yield from train(setup, mlp(setup))
    finally:
        torch.set_num_threads(usual)


def after(setup: Setup) -> Program:
    """As many as the other programs have."""
    return train(setup, mlp(setup))
