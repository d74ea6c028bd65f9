"""A cell is called in a loop over time, where a layer runs over all steps at once."""

from __future__ import annotations

import torch
from torch import nn

from examples.lab.parts import CLASSES, Program, Setup, train_step


class _Loop(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(inputs, hidden), nn.Linear(hidden, CLASSES)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        state = self.cell(sequence[:, 0])
        for time in range(1, sequence.shape[1]):
            state = self.cell(sequence[:, time], state)
        logits: torch.Tensor = self.head(state[0])
        return logits


class _Layer(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(inputs, hidden, batch_first=True), nn.Linear(hidden, CLASSES)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.layer(sequence)
        logits: torch.Tensor = self.head(hidden[0])
        return logits


def before(setup: Setup) -> Program:
    """Call the cell once for each point in time."""
    return _train(setup, _Loop)


def after(setup: Setup) -> Program:
    """Call the layer once."""
    return _train(setup, _Layer)


def _train(setup: Setup, kind: type[_Loop] | type[_Layer]) -> Program:
    size = setup.size
    net = kind(size.width, 2 * size.width).to(setup.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    sequences = torch.randn(size.batch, size.tokens, size.width, device=setup.device)
    classes = torch.arange(size.batch, device=setup.device) % CLASSES
    while True:
        train_step(net, optimizer, sequences, classes)
        yield size.batch
