"""Host time that PyTorch's profiler takes per event, as measured by `python -m examples.lab overhead`.

The figures are in `profiler_overhead.json`, with the machine and the versions of the measurement. They are CPU time of
the recording thread. Other machines and versions differ, so an estimate subtracts between nothing and these figures
from the host's time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_suffix(".json")


class EventCost(msgspec.Struct, frozen=True):
    """CPU time in ns per event."""

    low_ns: float
    """Lower quartile over the rounds."""
    median_ns: float
    high_ns: float
    """Upper quartile over the rounds."""


class Overhead(msgspec.Struct, frozen=True):
    """Results of one run of the script."""

    measured: str
    """Time of the measurement in UTC, in ISO 8601 format."""
    cpu: str
    """Name of the processor."""
    cores: int
    python: str
    torch: str
    rounds: int
    operator: EventCost
    """An operator (`cpu_op`) without further profiler options."""
    shapes: EventCost
    """Additional time for an operator of three tensors with `record_shapes`."""
    memory: EventCost
    """An allocation or a release (`[memory]`), with `profile_memory`."""
    frame: EventCost
    """A call of a Python function (`python_function`), with `with_stack`."""
    range: EventCost
    """A range of `record_function` (`user_annotation`)."""


@cache
def overheads() -> tuple[Overhead, ...]:
    """All stored runs of the script, oldest first."""
    return msgspec.json.decode(_FILE.read_bytes(), type=tuple[Overhead, ...])
