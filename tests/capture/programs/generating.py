"""Generates TOKENS tokens with a compiled model, and prints what the compiler says of it."""

# ruff: noqa: T201 - it prints, as programs do

from __future__ import annotations

import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(tokens)

    @torch.no_grad()
    def generate(self, tokens: torch.Tensor, count: int) -> torch.Tensor:
        compiled = torch.compile(self, backend="eager", fullgraph=True)
        for _ in range(count):
            tokens = compiled(tokens=tokens)[:, -1:].argmax(-1)
        return tokens


Model().generate(torch.zeros(2, 1, dtype=torch.long), int(sys.argv[1]))
counters = torch._dynamo.utils.counters
print(f"{counters['stats']['unique_graphs']} graph, {sum(counters['graph_break'].values())} breaks")
