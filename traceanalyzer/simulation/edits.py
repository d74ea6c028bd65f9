"""What a fix changes in a program, as data. Rows are those of the trace's tables.

Edits are gathered before any of them is applied: factors are multiplied where they meet, of floors the highest counts,
and what is dropped or no longer waits is so for all. So their order does not matter, and one that only shortens
durations or removes causes never makes a replay longer, alone or together with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from traceanalyzer.trace.table import I64


class Loader(msgspec.Struct, frozen=True):
    """Waits for the loader become shorter: all by a factor, and then to some time each; shorter ones stay."""

    floor_ns: int | None = None
    """What a wait takes at most; None does not limit it."""
    factor: float = 1.0
    """New time over old, 0 to 1."""


class Scale(msgspec.Struct, frozen=True):
    """Device events become shorter or longer."""

    rows: I64
    """Rows of the device table."""
    factor: float
    """New duration over old, 0 or more."""
    floor_ns: I64 | int = 0
    """No event becomes shorter than this: one number, or one for each row. Events that are shorter stay."""


class Drop(msgspec.Struct, frozen=True):
    """Device events are removed, with their launches and the operators that only launch them."""

    rows: I64
    """Rows of the device table."""


class Unblock(msgspec.Struct, frozen=True):
    """Calls no longer wait for the device; they keep what they take by themselves."""

    rows: I64
    """Rows of the launch table."""


class Host(msgspec.Struct, frozen=True):
    """Host time becomes shorter or longer. Intervals of one thread must not overlap."""

    thread: I64
    """Rows of the threads, shape (intervals,)."""
    start_ns: I64
    end_ns: I64
    factor: float
    """New time over old, 0 or more."""


class Relaunch(msgspec.Struct, frozen=True):
    """One launch for many, as of a CUDA graph: no host time passes from the first to the last launch of a step."""

    rows: I64
    """Rows of the device table."""
    cost_ns: int
    """Host time of the one launch in each step; no more than the time that is saved."""


class Overlap(msgspec.Struct, frozen=True):
    """Collectives overlap with the computation; only the end of the step waits for them."""

    rows: I64
    """Rows of the device table."""


class Bandwidth(msgspec.Struct, frozen=True):
    """Collectives transfer at another rate; with one rank their duration includes waiting for others."""

    rows: I64
    """Rows of the device table."""
    factor: float
    """New duration over old, 0 or more."""


Edit = Loader | Scale | Drop | Unblock | Host | Relaunch | Overlap | Bandwidth
Edits = Sequence[Edit]

HostTimes = tuple[I64, I64, I64, float]
"""Thread, start and end of host times, and the factor of them all."""


@dataclass
class Gathered:
    """All edits of a replay together, by point and by device event of its graph."""

    points: int
    events: int
    loader_floor_ns: int | None = None
    """What a wait for the loader takes at most; None does not limit them."""
    loader_factor: float = 1.0
    """Of each wait for the loader."""
    host_times: list[HostTimes] = field(default_factory=list)
    """Host times with their factors."""
    host_factor: np.ndarray[tuple[int], np.dtype[np.float64]] = field(init=False)
    """Of the host time before each point."""
    delay_factor: np.ndarray[tuple[int], np.dtype[np.float64]] = field(init=False)
    """Of the host time between each point and the point of another thread that hands over to it."""
    added_ns: I64 = field(init=False)
    """Host time before each point that comes in place of what went away."""
    unblocked: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(init=False)
    """Points that no device event holds up any more."""
    device_factor: np.ndarray[tuple[int], np.dtype[np.float64]] = field(init=False)
    device_floor_ns: I64 = field(init=False)
    dropped: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(init=False)
    """Device events that are removed."""
    overlapped: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(init=False)
    """Device events that get a stream of their own."""

    def __post_init__(self) -> None:
        self.host_factor = np.ones(self.points)
        self.delay_factor = np.ones(self.points)
        self.added_ns = np.zeros(self.points, np.int64)
        self.unblocked = np.zeros(self.points, np.bool_)
        self.device_factor = np.ones(self.events)
        self.device_floor_ns = np.zeros(self.events, np.int64)
        self.dropped = np.zeros(self.events, np.bool_)
        self.overlapped = np.zeros(self.events, np.bool_)
