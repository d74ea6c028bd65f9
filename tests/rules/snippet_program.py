"""Runs pieces of code that rules show, each in a small program on the CPU; prints what failed as JSON.

    python snippet_program.py CODES.json

CODES.json has a list of `[code, shapes]`; with shapes, operands `a` and `b` are tensors of these sizes without data.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler


def namespace() -> dict[str, Any]:
    """The program around a piece of code: a model, a batch, and what the code calls by name."""
    x = torch.rand(4, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))
    parameters = list(model.parameters())
    model.generate = lambda input_ids, **_: model(x)[:, input_ids[0]]  # type: ignore[assignment]  # as of transformers
    queries = torch.rand(1, 2, 4, 8)
    return {
        "torch": torch,
        "nn": nn,
        "math": math,
        "os": os,
        "gc": __import__("gc"),
        "DataLoader": DataLoader,
        "DistributedDataParallel": DistributedDataParallel,
        "RandomSampler": RandomSampler,
        "WeightedRandomSampler": WeightedRandomSampler,
        "samples": 4,
        "profile": profile,
        "model": model,
        "x": x,
        "batch": x,
        "y": torch.tensor([0, 1, 0, 1]),
        "parameters": parameters,
        "optimizer": torch.optim.SGD(parameters, lr=0.1),
        "settings": {"lr": 0.1},
        "loss": model(x).sum(),
        "total": torch.zeros(()),
        "running_loss": torch.zeros(()),
        "losses": [],
        "values": [torch.zeros(()), torch.ones(())],
        "input_ids": torch.tensor([[0, 1]]),
        "criterion": nn.CrossEntropyLoss(),
        "layer": nn.Linear(1, 5),
        "dataset": TensorDataset(x),
        "weights": [0.1, 0.2, 0.3, 0.4],
        "batch_size": 1,
        "vocabulary": 50257,
        "shape": (2, 3),
        "mask": torch.ones(4, dtype=torch.bool),
        "per_token": torch.rand(4),
        "a": torch.rand(2, 5, 3),
        "b": torch.rand(2, 5, 3),
        "self": SimpleNamespace(attention=nn.MultiheadAttention(8, 2)),
        "query": queries[0],
        "key": queries[0],
        "value": queries[0],
        "q": queries,
        "k": queries,
        "v": queries,
        "weight": torch.ones(8),
        "eps": 1e-6,
        "f": torch.sin,
        "block": nn.ReLU(),
        "conv": nn.Conv2d(3, 8, 3).eval(),
        "bn": nn.BatchNorm2d(8).eval(),
        "tensors": [torch.rand(3), torch.rand(2, 2)],
        "factor": 0.9,
        "array": torch.rand(3).double().numpy(),
        "rank": None,
        "local_rank": None,
        "logits": torch.rand(4, 2),
        "hidden": torch.rand(2, 4, 8),
        "head": nn.Linear(8, 16),
        "groups": 2,
        "targets": torch.tensor([0, 1, 0, 1]),
        "labels": torch.tensor([0, 1, 0, 1]),
        "step": 1,
        "scores": torch.rand(16),
        "table": torch.rand(6, 3),
        "index": torch.tensor([0, 2, 2, 5]),
        "indices": torch.tensor([0, 2, 2, 5]),
        "matrix": torch.rand(6, 3),
        "input_size": 3,
        "hidden_size": 4,
        "sequence": torch.rand(5, 2, 3),
        "average": torch.zeros(3),
        "features": torch.rand(4, 3),
        "averages": [parameter.detach().clone() for parameter in parameters],
        "encoder": nn.Linear(3, 3),
        "torchvision": SimpleNamespace(ops=SimpleNamespace(batched_nms=lambda *_: None)),
        "boxes": torch.rand(16, 4),
        "classes": torch.zeros(16),
        "signals": torch.rand(2, 64),
        "window": torch.ones(16),
        "n_fft": 16,
        "hop": 8,
        "rows": 6,
        "width": 3,
    }


def tried(code: str, shapes: list[list[int]] | None) -> str | None:
    """Why a piece of code fails; None if it runs."""
    names = namespace()
    if shapes:
        names["a"], names["b"] = (torch.empty(shape, device="meta") for shape in shapes[:2])
    if "no_sync" in code:
        names["model"] = DistributedDataParallel(nn.Linear(8, 2))
        names["loss"] = names["model"](torch.rand(4, 8)).sum()
    if "Schedule1F1B" in code:
        names["stage"] = PipelineStage(nn.Linear(8, 2), 0, 1, torch.device("cpu"))
    if "rms_norm" in code:
        names["x"] = torch.rand(2, 8)
    if "checkpoint(layer" in code:
        names["layer"] = nn.Linear(8, 8)
    if "layer.weight" in code:
        names["x"] = torch.rand(4, 1)
    text = code.replace("'cuda'", "'cpu'").replace('"cuda"', '"cpu"').replace("[None]", "None")
    text = text.replace("torch.float16", "torch.bfloat16").replace("[rank]", "None").replace("[local_rank]", "None")
    try:
        exec(compile(text, "snippet", "exec"), names)
        if shapes and "einsum" in text:
            axis = int(code.rpartition("sum(")[2].partition(")")[0])
            assert names["y"].shape == (names["a"] * names["b"]).sum(axis).shape
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Try all pieces of code."""
    warnings.simplefilter("ignore")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    pieces = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    failed = {code: why for code, shapes in pieces if (why := tried(code, shapes)) is not None}
    sys.stdout.write(json.dumps(failed))
    sys.stdout.flush()
    os._exit(0)  # what the code has started has nothing left to say


if __name__ == "__main__":
    main()
