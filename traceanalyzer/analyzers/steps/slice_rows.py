"""Slices of lanes as columns, and how many of them become few: the shortest neighbours are joined to blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.trace.distinct import narrow
from traceanalyzer.trace.table import I64, Array, Bool, take_or

_FINEST, _OF_OCTAVE = 96, 4
"""The finest resolution that is tried, and how many are tried until the double (own choice: a nanosecond of 17 ms)."""


class LanePlace(msgspec.Struct, frozen=True):
    """What a lane shows, and where it happens."""

    kind: str
    """`marks` (ranges that people or frameworks set), `owners` (the part of the program that the host is in), `host`,
    `launches` (runtime calls), `device`, or `accelerator` (a device that is not a GPU)."""
    label: str
    """Where it happens, as in the analysis `timeline`."""
    role: str | None
    """Of threads `main`, `autograd` or `loader`; null for others."""


class SliceLane(LanePlace, frozen=True):
    """Slices of a thread or a stream as columns of one length, in the order of time, outer before inner."""

    start: tuple[int, ...]
    """Time in ns from the start of the slice before, of the first one from the start of the time."""
    duration: tuple[int, ...]
    """Length in ns, within the time."""
    depth: tuple[int, ...]
    """Nesting depth; 0 is the outermost."""
    name: tuple[int, ...]
    """Position in the names; of a block that of its longest event."""
    count: tuple[int, ...]
    """Number of events that each slice stands for; empty if all are single events."""
    launch: tuple[int, ...] = ()
    """Of devices: for each slice the slice that launched it, by its number among the slices of all lanes of runtime
    calls, in their order; -1 if it is unknown or a block. As the difference from the value before; empty if none is
    known."""


class SliceRows(msgspec.Struct, frozen=True):
    """Slices of several lanes; columns of one length."""

    lane: I64
    depth: I64
    start_ns: I64
    end_ns: I64
    name: I64
    """Position of the name; of a block that of its longest slice."""
    count: I64
    """Number of events; more than 1 for a block."""
    row: I64
    """Row of the event in its table; -1 for a block."""
    launch: I64
    """Row of the call that launched it; -1 for a block, and where it is unknown."""

    def __len__(self) -> int:
        return len(self.lane)

    def take(self, rows: I64 | Bool) -> SliceRows:
        """Some of the slices."""
        where = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return SliceRows(*(getattr(self, column)[where] for column in self.__struct_fields__))

    @classmethod
    def none(cls) -> SliceRows:
        """An empty table of slices."""
        return cls(*(np.empty(0, np.int64) for _ in cls.__struct_fields__))

    @classmethod
    def of(cls, parts: Sequence[SliceRows]) -> SliceRows:
        """All slices of some parts, at least one."""
        return cls(*(np.concatenate([getattr(part, key) for part in parts]) for key in cls.__struct_fields__))

    def renumbered(self, lanes: I64, first: int) -> SliceRows:
        """With other numbers for the lanes: the given ones are counted from the first number on."""
        order = np.argsort(lanes)
        return replace(self, lane=order[np.searchsorted(lanes[order], self.lane)] + first)

    def by_lane(self) -> SliceRows:
        """The slices by lane and depth, and there in the order of time."""
        return self.take(in_order(self.lane, self.depth, self.start_ns))

    def in_time(self) -> SliceRows:
        """The slices by lane, and there in the order of time, outer before inner."""
        return self.take(np.lexsort((narrow(self.depth), self.start_ns, narrow(self.lane))))


def fitting(rows: SliceRows, most: int, duration_ns: int) -> tuple[SliceRows, int]:
    """At most so many slices, as far as joining helps, and the length in ns below which they were joined, or 0.

    Args:
        rows: Slices whose times lie between 0 and the duration.
        most: The greatest number.
        duration_ns: Length of the time that they are from.
    """
    if len(rows) <= most:
        return rows, 0
    ordered = rows.by_lane()
    low = 0
    high = _FINEST
    length = ordered.end_ns - ordered.start_ns
    while low < high:
        middle = (low + high + 1) // 2
        if (
            int(_begins(ordered.lane, ordered.depth, ordered.start_ns, length, _cell(duration_ns, middle)).sum())
            <= most
        ):
            low = middle
        else:
            high = middle - 1
    cell = _cell(duration_ns, low)
    return _joined(ordered, cell), cell


def coarse(rows: SliceRows, most: int, duration_ns: int) -> SliceRows:
    """Far too many slices, joined at a resolution that is finer than what `fitting` will choose."""
    if are_few(len(rows), most):
        return rows
    return _joined(rows.by_lane(), coarse_cell(most, duration_ns))


def are_few(count: int, most: int) -> bool:
    """Whether so many slices need not be joined before `fitting` joins them."""
    return count <= 4 * most


def coarse_cell(most: int, duration_ns: int) -> int:
    """The length in ns of the cells in which far too many slices are joined."""
    return max(1, duration_ns // (4 * most))


def _cell(duration_ns: int, power: int) -> int:
    return max(1, int(duration_ns / 2 ** (power / _OF_OCTAVE)))


def in_order(lane: Array, depth: Array, start_ns: I64) -> I64:
    """Positions of slices by lane and depth, and there in the order of time."""
    return np.lexsort((start_ns, narrow(depth), narrow(lane)))


def blocks(lane: Array, depth: Array, start_ns: I64, end_ns: I64, cell: int) -> tuple[I64, I64]:
    """Of slices in order, the first and the longest of each block of neighbours that are joined."""
    length = end_ns - start_ns
    begins = _begins(lane, depth, start_ns, length, cell)
    first = np.flatnonzero(begins)
    block = np.cumsum(begins) - 1
    longest = np.flatnonzero(length == np.maximum.reduceat(length, first)[block])
    return first, longest[np.append(True, np.diff(block[longest]) != 0)]


def _begins(lane: Array, depth: Array, start_ns: I64, length: I64, cell: int) -> Bool:
    """Where a slice is not joined to the one before: each short one begins in the same cell as its neighbour."""
    is_long = length >= cell
    at = start_ns // cell
    begins = np.ones(len(lane), np.bool_)
    begins[1:] = is_long[1:] | is_long[:-1] | (at[1:] != at[:-1])
    begins[1:] |= (lane[1:] != lane[:-1]) | (depth[1:] != depth[:-1])
    return begins


def _joined(rows: SliceRows, cell: int) -> SliceRows:
    first, longest = blocks(rows.lane, rows.depth, rows.start_ns, rows.end_ns, cell)
    is_single = np.diff(np.append(first, len(rows))) == 1
    return SliceRows(
        rows.lane[first],
        rows.depth[first],
        rows.start_ns[first],
        np.maximum.reduceat(rows.end_ns, first),
        rows.name[longest],
        np.add.reduceat(rows.count, first),
        np.where(is_single, rows.row[first], -1),
        np.where(is_single, rows.launch[first], -1),
    )


def columns(rows: SliceRows, places: Sequence[LanePlace]) -> Iterator[SliceLane]:
    """The lanes with their slices; the places are those of the numbers of lanes."""
    rows = rows.in_time()
    bounds = np.searchsorted(rows.lane, np.arange(len(places) + 1))
    is_call = np.array([place.kind == "launches" for place in places], np.bool_)[rows.lane]
    launch = _positions(rows.row[is_call], rows.launch)
    for place, first, last in zip(places, bounds.tolist(), bounds[1:].tolist(), strict=False):
        own = slice(first, last)
        yield SliceLane(
            place.kind,
            place.label,
            place.role,
            differences(rows.start_ns[own]),
            tuple((rows.end_ns[own] - rows.start_ns[own]).tolist()),
            tuple(rows.depth[own].tolist()),
            tuple(rows.name[own].tolist()),
            tuple(rows.count[own].tolist()) if (rows.count[own] > 1).any() else (),
            differences(launch[own]) if (launch[own] >= 0).any() else (),
        )


def _positions(rows: I64, wanted: I64) -> I64:
    """The position of each wanted row among some rows; -1 where it is not there."""
    order = np.argsort(rows, kind="stable")
    found = take_or(order, np.searchsorted(rows[order], wanted), -1)
    return np.where((wanted >= 0) & (take_or(rows, found, -1) == wanted), found, -1)


def rows_of(lanes: Sequence[SliceLane]) -> SliceRows:
    """The slices of lanes, by their numbers; a row is the position among the calls."""
    parts = [SliceRows.none()]
    calls = 0
    for number, lane in enumerate(lanes):
        start = np.cumsum(np.array(lane.start, np.int64))
        count = len(lane.start)
        none = np.full(count, -1)
        parts.append(
            SliceRows(
                np.full(count, number),
                np.array(lane.depth, np.int64),
                start,
                start + np.array(lane.duration, np.int64),
                np.array(lane.name, np.int64),
                np.array(lane.count or np.ones(count), np.int64),
                np.arange(calls, calls + count) if lane.kind == "launches" else none,
                np.cumsum(np.array(lane.launch, np.int64)) if lane.launch else none,
            )
        )
        calls += count if lane.kind == "launches" else 0
    return SliceRows.of(parts)


def differences(values: I64) -> tuple[int, ...]:
    """Each value as the difference from the one before, the first one from 0."""
    return tuple(np.diff(values, prepend=0).tolist())
