"""Each operator uses many more threads than there are cores."""

from __future__ import annotations

import torch

from examples.lab.parts import Program, Setup, mlp, train

_THREADS = 16


def before(setup: Setup) -> Program:
    """Use 16 threads per operator."""
    usual = torch.get_num_threads()
    torch.set_num_threads(_THREADS)
    try:
        yield from train(setup, mlp(setup))
    finally:
        torch.set_num_threads(usual)


def after(setup: Setup) -> Program:
    """Use as many threads as the other programs."""
    return train(setup, mlp(setup))
