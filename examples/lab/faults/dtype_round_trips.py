"""Activations are cast to bfloat16 and back after every layer."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import Program, Setup, mlp, train


class RoundTrip(nn.Module):
    """Cast to bfloat16 and back, in the forward and the backward pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values, rounded to bfloat16."""
        return x.to(torch.bfloat16).to(torch.float32)


def before(setup: Setup) -> Program:
    """Casts after every layer."""
    layers = [layer for part in mlp(setup) for layer in (part, RoundTrip())]
    return train(setup, nn.Sequential(*layers))


def after(setup: Setup) -> Program:
    """Train without casts."""
    return train(setup, mlp(setup))
