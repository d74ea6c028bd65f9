"""Records a small program once, on the CPU: `python -m benchmarks.gate_programs PROGRAM TRACE` (needs torch).

Each call is a process of its own, because a run is what differs between two recordings of one program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

# mypy checks this file both with and without torch
import torch  # type: ignore[import-not-found,unused-ignore]
from torch import nn  # type: ignore[import-not-found,unused-ignore]
from torch.profiler import ProfilerActivity, profile, schedule  # type: ignore[import-not-found,unused-ignore]
from torch.utils.data import DataLoader, TensorDataset  # type: ignore[import-not-found,unused-ignore]

STEPS, WARMUP = 20, 5
Step = Callable[[], None]


def dense() -> Step:
    """Training of a perceptron: products, and an optimizer of many small calls."""
    model = nn.Sequential(*(nn.Linear(384, 384) if i % 2 == 0 else nn.ReLU() for i in range(12)))
    return _training(model, torch.randn(128, 384))


def convolutions() -> Step:
    """Training of convolutions with normalization."""
    model = nn.Sequential(nn.Conv2d(3, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3), nn.Flatten())
    return _training(model, torch.randn(8, 3, 32, 32))


def attention() -> Step:
    """Inference of two layers of a transformer."""
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model, inputs = nn.TransformerEncoder(layer, 2).eval(), torch.randn(8, 64, 128)

    def step() -> None:
        with torch.no_grad():
            model(inputs)

    return step


def loader() -> Step:
    """Training that waits for its data."""
    model = nn.Linear(64, 64)
    batches = DataLoader(TensorDataset(torch.randn(96 * (STEPS + 3 * WARMUP), 64)), batch_size=96)
    source, train = iter(batches), _training(model, torch.randn(96, 64))

    def step() -> None:
        next(source)
        train()

    return step


def _training(model: nn.Module, inputs: torch.Tensor) -> Step:
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    "dense": dense,
    "convolutions": convolutions,
    "attention": attention,
    "loader": loader,
}


def main() -> None:
    """Record the named program once."""
    name, file = sys.argv[1:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    step = PROGRAMS[name]()
    for _ in range(WARMUP):
        step()
    cycle = schedule(wait=0, warmup=WARMUP, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=cycle) as profiler:
        for _ in range(WARMUP + STEPS):
            step()
            profiler.step()
    profiler.export_chrome_trace(file)


if __name__ == "__main__":
    main()
