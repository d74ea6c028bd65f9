"""Measures the cost of the hooks of `traceanalyzer capture` per step outside of the recorded steps.

    python -m benchmarks.capture_overhead [--steps N]

Needs torch. It times what the hooks add to each hooked call (optimizer step, batch, backward pass, named range),
against the same calls of a program without hooks, and compares the sum with the step of a small model on the CPU,
because such steps are the shortest in practice. The goal is less than 1 % of a step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

# mypy checks this file both with and without torch
import torch  # type: ignore[import-not-found,unused-ignore]
from torch import nn  # type: ignore[import-not-found,unused-ignore]
from torch.utils.data import DataLoader, TensorDataset  # type: ignore[import-not-found,unused-ignore]

from traceanalyzer.capture.agent.hooks import Hooks
from traceanalyzer.capture.agent.recorder import Recorder
from traceanalyzer.capture.agent.settings import Settings
from traceanalyzer.capture.agent.tools import Tools
from traceanalyzer.capture.agent.whole_run import WholeRun

BLOCK = 20
"""Steps in a row with or without hooks; blocks alternate, so that both run under the same conditions."""


class Training:
    """A small training whose step is a method."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        data = TensorDataset(torch.randn(64 * BLOCK, 256), torch.randint(0, 10, (64 * BLOCK,)))
        self.loader = DataLoader(data, batch_size=64)

    def block(self) -> list[float]:
        """Seconds of each step of an epoch."""
        durations, begin = [], time.perf_counter()
        for inputs, targets in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(inputs), targets).backward()
            self.optimizer.step()
            end = time.perf_counter()
            durations.append(end - begin)
            begin = end
        return durations


def hooks() -> Hooks:
    """The hooks, with a recorder that never starts recording."""
    tools = Tools(torch, Settings(folder="", wait=10**9, limit_s=0))
    listening = Hooks(tools)
    listening.recorder = Recorder(
        tools,
        lambda **_: None,
        WholeRun(tools),
        first_step=lambda: None,
        let_go=lambda: None,
        activities=lambda: None,
    )
    return listening


def added_by_calls() -> float:
    """Seconds that the hooks add to one step, each hook timed alone around a call that does nothing."""
    listening = hooks()
    recorder: Any = listening.recorder
    step = listening._hook_step(lambda function: function)(listening._stepped)  # as torch calls it after a step
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    calls: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, int]] = {
        "optimizer step": (step, lambda o: None, optimizer, 1),
        "batch": (listening._next(lambda i: None), lambda i: None, optimizer, 1),
        "backward": (listening._backward(lambda x: None), lambda x: None, optimizer, 1),
        "named range, entered": (listening._range_enter(lambda x: None), lambda x: None, optimizer, 3),
        "named range, left": (listening._range_exit(lambda x: None), lambda x: None, optimizer, 3),
    }
    total = 0.0
    for name, (hooked, plain, argument, per_step) in calls.items():
        cost = per_step * (_per_call(hooked, argument) - _per_call(plain, argument))
        print(f"{name:22} {1e6 * cost:8.2f} us a step")
        total += cost
    assert recorder.finder.source is not None, "the hooks were not reached"
    return total


def _per_call(call: Callable[..., Any], argument: Any, repeats: int = 2000) -> float:
    """The smallest of several means, because disturbances only add time."""
    means = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(repeats):
            call(argument)
        means.append((time.perf_counter() - begin) / repeats)
    return min(means)


def main() -> None:
    """Print the two figures and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="steps without and with hooks")
    wanted = parser.parse_args().steps
    torch.set_num_threads(1)
    training = Training()
    training.block()
    plain: list[float] = []
    hooked: list[float] = []
    while len(hooked) < wanted:
        plain += training.block()
        listening = hooks()
        listening.install()
        hooked += training.block()
        listening.remove()
    added = added_by_calls()
    step = statistics.median(plain)
    print(f"{'step without hooks':22} {1e6 * step:8.2f} us (median of {len(plain)})")
    print(f"{'step with hooks':22} {1e6 * statistics.median(hooked):8.2f} us (median of {len(hooked)})")
    print(f"{'hooks, call by call':22} {1e6 * added:8.2f} us: {100 * added / step:.2f} % of a step")


if __name__ == "__main__":
    main()
