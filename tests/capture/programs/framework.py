"""Trains twenty batches with the framework that is named: lightning, transformers or accelerate."""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 160

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"inputs": torch.full((8,), float(row % 5)), "labels": torch.tensor(row % 2)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.cross_entropy(self.layer(inputs), labels)}


def lightning(framework: Any) -> None:
    class Module(framework.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any) -> Any:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = framework.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.fit(Module(), DataLoader(Rows(), batch_size=8))


def transformers(framework: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = framework.TrainingArguments(folder, max_steps=20, report_to=[], use_cpu=True, save_strategy="no")
        framework.Trainer(model=Model(), args=settings, train_dataset=Rows()).train()


def accelerate(framework: Any) -> None:
    accelerator, model = framework.Accelerator(cpu=True), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Rows(), batch_size=8))
    for batch in loader:
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()


{"lightning": lightning, "transformers": transformers, "accelerate": accelerate}[sys.argv[1]](
    import_module(sys.argv[1])
)
