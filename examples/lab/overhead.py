"""Measures the cost of the profiler per kind of event on this machine.

A loop makes events of one kind. The cost of an event is the CPU time of the loop with the option that records such
events, less the CPU time without it, divided by the number of events in the trace. CPU time of the thread is measured,
because other programs do not add to it. The shortest of some pieces counts, because caches and other programs on the
core disturb the others. The two measurements of a difference follow each other directly, because the clock of the core
changes.
"""

from __future__ import annotations

import gzip
import json
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from examples.lab import machine
from traceanalyzer.knowledge.profiler_overhead import EventCost, Overhead

_PIECES = 6
"""Number of pieces of which the shortest counts."""
_EVENTS = 1000
"""Iterations of the loop in a piece."""


@dataclass(frozen=True)
class Kind:
    """How to make events of a kind, and the options with and without their recording."""

    loop: Callable[[], None]
    category: str
    """Category of the events in the trace."""
    options: dict[str, bool]
    without: dict[str, bool] | None
    """Options to compare with; None: no profiler."""


def write(path: Path, rounds: int) -> None:
    """Measure, and add the figures to the file."""
    torch.set_num_threads(1)
    kept = msgspec.json.decode(path.read_bytes(), type=list[Overhead]) if path.exists() else []
    data = msgspec.json.encode([*kept, measure(rounds)])
    path.write_bytes(msgspec.json.format(data, indent=1) + b"\n")


def measure(rounds: int) -> Overhead:
    """Measure all kinds in turns."""
    kinds = _kinds()
    events = {name: _events(kind) for name, kind in kinds.items()}
    costs: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, kind in kinds.items():
            without_ns = _piece_ns(kind.loop) if kind.without is None else _profiled_ns(kind.loop, kind.without)
            costs[name].append((_profiled_ns(kind.loop, kind.options) - without_ns) / events[name])
    return Overhead(
        machine.now(),
        machine.cpu(),
        machine.cores(),
        platform.python_version(),
        str(torch.__version__),
        rounds,
        **{name: EventCost(*(round(cost, 1) for cost in quantiles(seen, n=4))) for name, seen in costs.items()},
    )


def _kinds() -> dict[str, Kind]:
    return {
        "operator": Kind(_operators, "cpu_op", {}, None),
        "shapes": Kind(_operators, "cpu_op", {"record_shapes": True}, {}),
        "memory": Kind(_allocations, "cpu_instant_event", {"profile_memory": True}, {}),
        "frame": Kind(_calls, "python_function", {"with_stack": True}, {}),
        "range": Kind(_ranges, "user_annotation", {}, None),
    }


def _events(kind: Kind) -> float:
    """Number of events of its category that a piece adds to the trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        with profile(activities=[ProfilerActivity.CPU], **kind.options) as recording:
            _piece_ns(kind.loop)
        recording.export_chrome_trace(str(path))
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return sum(event.get("cat") == kind.category for event in events) / _PIECES


def _profiled_ns(loop: Callable[[], None], options: dict[str, bool]) -> float:
    """CPU time of a piece under the profiler."""
    with profile(activities=[ProfilerActivity.CPU], **options):
        return _piece_ns(loop)


def _piece_ns(loop: Callable[[], None]) -> float:
    """CPU time of the shortest piece."""
    times = []
    for _ in range(_PIECES):
        begin = time.thread_time_ns()
        loop()
        times.append(time.thread_time_ns() - begin)
    return min(times)


def _operators() -> None:
    """Call operators that allocate nothing."""
    left, right, out = torch.ones(1), torch.ones(1), torch.ones(1)
    for _ in range(_EVENTS):
        torch.add(left, right, out=out)


def _allocations() -> None:
    """Allocate and release memory."""
    for _ in range(_EVENTS):
        torch.empty(16)


def _calls() -> None:
    """Call Python functions that do nothing."""
    for _ in range(_EVENTS):
        _nothing()


def _nothing() -> None:
    pass


def _ranges() -> None:
    for _ in range(_EVENTS):
        with record_function("range"):
            pass
