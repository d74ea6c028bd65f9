"""A training in the style of Lightning: hooks, a closure for the optimizer, a check of validation, accumulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def training_step(self, batch: Any) -> Any:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch: Any) -> Any:
        return self.layer(batch[0])

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any]) -> None:
        optimizer.step(closure)


class Trainer:
    def __init__(self, accumulate: int) -> None:
        self.accumulate = accumulate

    def fit(self, module: Module, loader: Any, validation: Any) -> None:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, foreach=True)
        module.eval()
        with torch.no_grad():
            for _, batch in zip(range(2), validation, strict=False):
                module.validation_step(batch)
        module.train()
        batches = iter(loader)
        for _ in range(len(loader) // self.accumulate):

            def closure() -> Any:
                optimizer.zero_grad()
                for batch in [next(batches) for _ in range(self.accumulate)]:
                    loss = module.training_step(batch)
                    loss.backward()
                return loss

            module.optimizer_step(optimizer, closure)


def loader(batch_size: int) -> Any:
    data = TensorDataset(torch.randn(120, 8), torch.randint(0, 2, (120,)))
    return DataLoader(data, batch_size=batch_size, drop_last=True)


Trainer(accumulate=2).fit(Module(), loader(3), loader(10))
