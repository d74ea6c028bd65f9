"""The content of a dump of torch's flight recorder: the last collectives of one rank, and how far each group came.

What the watchdogs wrote into the log of a job is kept the same way: as a dump of each rank that they spoke of.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from traceanalyzer.trace.model import Loss

SCHEDULED, STARTED, COMPLETED = 0, 1, 2
"""States of an operation: the host has called it, the device has begun it, the device has finished it."""
UNNAMED = "?"
"""Name of a group that a log does not name."""


class RecordedGroup(msgspec.Struct, frozen=True):
    """A group of ranks that communicate with each other."""

    name: str
    """Torch's name, often a number; equal on all members."""
    description: str
    """What the program calls it; empty if nothing."""
    ranks: tuple[int, ...]
    """Its members, in the order of their ranks within the group; empty if the dump does not say."""


class GroupCounters(msgspec.Struct, frozen=True):
    """How far a rank came in a group, as its process group counts; None if the dump does not say."""

    enqueued: int | None
    """Number of the last collective that the host called."""
    completed: int | None
    """Number of the last collective that the device finished."""


class Operations(msgspec.Struct, frozen=True):
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
    duration_ns: np.ndarray
    """How long the device worked on it, which torch measures with TORCH_NCCL_ENABLE_TIMING=1 alone."""

    def __len__(self) -> int:
        return len(self.sequence)


class CommunicatorFault(msgspec.Struct, frozen=True):
    """That a communicator of a rank was aborted or has failed, by `nccl_comm_state`."""

    communicator: str
    """Its key, which the members share."""
    what: str
    """Name of the field that says it, such as `abortFlag`."""
    value: str


class FlightDump(msgspec.Struct, frozen=True):
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
    losses: tuple[Loss, ...] = msgspec.field(default=())
    is_logged: bool = False
    """Whether the log of a job says it, so that the ring is not known."""
    faults: tuple[CommunicatorFault, ...] = ()
    """What its communicators say of aborts and errors."""

    @property
    def hides_p2p(self) -> bool:
        """Whether its operations are of a backend whose sends and receives are not recorded."""
        named = self.operations.name
        return len(named) > 0 and all(
            code >= 0 and self.texts[code].startswith("gloo:") for code in set(named.tolist())
        )


class LoggedHang(msgspec.Struct, frozen=True):
    """What the watchdogs of ranks said in the log of a job."""

    name: str
    dumps: Mapping[int, FlightDump]
    """What it says of each rank; times are since the beginning of a year, by the clock of the log."""
    world_size: int | None
    """Number of ranks that the log names; None if it does not."""
    size_bytes: int | None = None
    losses: tuple[Loss, ...] = msgspec.field(default=())
