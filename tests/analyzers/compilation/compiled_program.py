"""Two graph breaks in a compiled function, and another size of its input in the fifth recorded step."""

# ruff: noqa: T201 - printing is one of the breaks

from __future__ import annotations

import sys

import torch
from torch.profiler import ProfilerActivity, profile, schedule


@torch.compile(backend="aot_eager", dynamic=False)
def loss_of(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ weight)
    print("a line")
    y = y * 2
    if y.sum() > 0:
        y = y - 1
    return (y * y).mean()


def main() -> None:
    torch.set_num_threads(1)
    weight = torch.randn(16, 16, requires_grad=True)
    loss_of(torch.randn(8, 16), weight).backward()
    when = schedule(wait=0, warmup=1, active=6, repeat=1)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=when, on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1])
    ) as recording:
        for number in range(7):
            loss_of(torch.randn(12 if number == 5 else 8, 16), weight).backward()
            recording.step()


if __name__ == "__main__":
    main()
