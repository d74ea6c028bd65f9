"""Short sequences are padded to the greatest possible length."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, batches, sgd, train_step


class Encoder(nn.Module):
    """One layer of a transformer."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        width = 4 * setup.size.width
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.head(self.layer(tokens).mean(1))


def _train(setup: Setup, length: int) -> Program:
    net = Encoder(setup).to(setup.device)
    optimizer = sgd(net)
    words = torch.randn(setup.size.batch, setup.size.tokens // 2, 4 * setup.size.width, device=setup.device)
    for _, targets in batches(setup):
        tokens = nn.functional.pad(words, (0, 0, 0, length - words.shape[1]))
        train_step(net, optimizer, tokens, targets)
        yield len(tokens)


def before(setup: Setup) -> Program:
    """Three of four tokens are padding."""
    return _train(setup, 2 * setup.size.tokens)


def after(setup: Setup) -> Program:
    """No token is padding."""
    return _train(setup, setup.size.tokens // 2)
