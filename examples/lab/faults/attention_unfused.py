"""Attention is written out, so that scores and softmax go through memory."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from examples.lab.parts import CLASSES, Program, Setup, batches, sgd, train_step

_HEADS = 4


class Attention(nn.Module):
    """One layer of attention over a sequence."""

    def __init__(self, setup: Setup, *, fused: bool) -> None:
        super().__init__()
        self.fused, width = fused, 4 * setup.size.width
        self.inputs, self.head = nn.Linear(width, 3 * width), nn.Linear(width, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        q, k, v = (part.unflatten(-1, (_HEADS, -1)).transpose(1, 2) for part in self.inputs(tokens).chunk(3, -1))
        if self.fused:
            mixed = scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            mixed = scores.softmax(-1) @ v
        return self.head(mixed.transpose(1, 2).flatten(2).mean(1))


def _train(setup: Setup, *, fused: bool) -> Program:
    net = Attention(setup, fused=fused).to(setup.device)
    optimizer = sgd(net)
    tokens = torch.randn(setup.size.batch, 2 * setup.size.tokens, 4 * setup.size.width, device=setup.device)
    for _, targets in batches(setup):
        train_step(net, optimizer, tokens, targets)
        yield len(tokens)


def before(setup: Setup) -> Program:
    """Attention as separate operators: scores, softmax, product."""
    return _train(setup, fused=False)


def after(setup: Setup) -> Program:
    """Attention as one fused operator."""
    return _train(setup, fused=True)
