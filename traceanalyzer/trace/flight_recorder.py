"""The content of a dump of torch's flight recorder: the last collectives of one rank, and how far each group came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from traceanalyzer.trace.model import Loss

SCHEDULED, STARTED, COMPLETED = 0, 1, 2
"""States of an operation: the host has called it, the device has begun it, the device has finished it."""


@dataclass(frozen=True)
class RecordedGroup:
    """A group of ranks that communicate with each other."""

    name: str
    """Torch's name, often a number; equal on all members."""
    description: str
    """What the program calls it; empty if nothing."""
    ranks: tuple[int, ...]
    """Its members, in the order of their ranks within the group; empty if the dump does not say."""


@dataclass(frozen=True)
class GroupCounters:
    """How far a rank came in a group, as its process group counts; None if the dump does not say."""

    enqueued: int | None
    """Number of the last collective that the host called."""
    completed: int | None
    """Number of the last collective that the device finished."""


@dataclass(frozen=True)
class Operations:
    """Operations in the ring of the recorder, the oldest first, as columns; -1 is unknown."""

    group: np.ndarray
    """Position of the process group in `FlightDump.groups`."""
    sequence: np.ndarray
    """Number of the collective in its group, or of the point-to-point operation among those of the group."""
    is_p2p: np.ndarray
    """Whether it is a point-to-point operation, which is counted apart."""
    name: np.ndarray
    """Position of its name, such as `nccl:all_reduce`, in `FlightDump.texts`; so for the next three."""
    shape: np.ndarray
    """Sizes of its inputs."""
    dtype: np.ndarray
    """Types of the inputs."""
    line: np.ndarray
    """Innermost line of the program that called it; -1 without frames."""
    state: np.ndarray
    """`SCHEDULED`, `STARTED` or `COMPLETED`."""
    created_ns: np.ndarray
    """When the host called it, in ns since 1970."""
    completed_ns: np.ndarray
    """When the watchdog saw that it was finished, in ns since 1970."""
    timeout_ms: np.ndarray
    """How long it may take."""

    def __len__(self) -> int:
        return len(self.sequence)


@dataclass(frozen=True)
class FlightDump:
    """What one rank wrote."""

    name: str
    rank: int | None
    """By the name of the file; None if it has no number."""
    version: str
    """Version of the format."""
    groups: tuple[RecordedGroup, ...]
    counters: Mapping[str, GroupCounters]
    """By the name of the group."""
    texts: tuple[str, ...]
    operations: Operations
    size_bytes: int | None = None
    losses: tuple[Loss, ...] = field(default=())
