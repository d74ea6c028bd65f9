"""What PyTorch's profiler costs the host per event, as measured by `python -m examples.lab overhead`.

The figures are data, in `profiler_overhead.json`, with the machine and the versions that they were measured with. They
are CPU time of the thread that records. Another machine or another version has others, so an estimate subtracts
between nothing and these figures from the host's time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_suffix(".json")


class EventCost(msgspec.Struct, frozen=True):
    """CPU time in ns per event."""

    low_ns: float
    """A quarter of the rounds is below."""
    median_ns: float
    high_ns: float
    """A quarter of the rounds is above."""


class Overhead(msgspec.Struct, frozen=True):
    """One run of the script."""

    measured: str
    """When, in UTC, as ISO 8601 has it."""
    cpu: str
    """Name of the processor."""
    cores: int
    python: str
    torch: str
    rounds: int
    operator: EventCost
    """An operator (`cpu_op`), without any option of the profiler."""
    shapes: EventCost
    """What `record_shapes` adds to an operator of three tensors."""
    memory: EventCost
    """An allocation or a release (`[memory]`), with `profile_memory`."""
    frame: EventCost
    """A call of a Python function (`python_function`), with `with_stack`."""
    range: EventCost
    """A range of `record_function` (`user_annotation`)."""


@cache
def overheads() -> tuple[Overhead, ...]:
    """All runs of the script that were kept, the oldest first."""
    return msgspec.json.decode(_FILE.read_bytes(), type=tuple[Overhead, ...])
