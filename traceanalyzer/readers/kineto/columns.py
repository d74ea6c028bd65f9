"""Turns lists of events into the columns of the trace's tables, window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from traceanalyzer.readers.kineto import accelerators
from traceanalyzer.readers.kineto.codes import CategoryCounts, ThreadsOfProcesses
from traceanalyzer.readers.kineto.events import SLICE, Args, Event, args_of, is_general, where
from traceanalyzer.readers.kineto.fields import (
    COUNTED,
    DESCRIPTIONS,
    FIRST_ARROW,
    POOL_OF,
    POOLS,
    TABLES,
    WHOLES,
    EventTable,
    Field,
    Kind,
    TableGroup,
    attribute,
    none_of,
)
from traceanalyzer.readers.kineto.values import (
    INVALID,
    descriptions,
    durations,
    floats,
    integers,
    nanoseconds,
    small,
    texts,
)
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Array, Table

T = TypeVar("T", bound=Table)

_BLOCK = 1 << 16
"""Most rows of a block (own choice: a block is small beside a table that needs many of them)."""


class Buffer(Generic[T]):
    """The columns of one table, in blocks, so that nothing is copied more than twice."""

    def __init__(self, table: type[T]) -> None:
        self.table = table
        self._dtypes = {c.name: c.dtype for c in table.columns()}
        self._full: dict[str, list[Array]] = {name: [] for name in self._dtypes}
        self._block: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in self._dtypes.items()}
        """What is being filled."""
        self._size = self._filled = self._rows = 0
        """Rows that the block has room for, its rows, and all rows."""
        self.order: I64 | None = None
        """The row of the file that each row of the finished table was, where it is known and another one."""

    def extend(self, columns: Mapping[str, Array], codes: Mapping[str, Array]) -> None:
        """Append rows; every column of the table is given.

        Args:
            columns: By name.
            codes: For some of the columns what their values stand for; -1 for the last one.
        """
        rows = len(columns["start_ns"])
        if self._filled + rows > self._size:
            self._next_block(rows)
        end = self._filled + rows
        for name, block in self._block.items():
            if name in codes:
                codes[name].take(columns[name], out=block[self._filled : end], mode="wrap")
            else:
                block[self._filled : end] = columns[name]
        self._filled = end
        self._rows += rows

    def columns(self) -> dict[str, Array]:
        """What the columns hold."""
        return {name: _joined(self._parts(name), dtype) for name, dtype in self._dtypes.items()}

    def __len__(self) -> int:
        return self._rows

    def _next_block(self, rows: int) -> None:
        """Begin a block with room for at least so many rows, and for as many as there are already."""
        for name, block in self._block.items():
            self._full[name].append(block[: self._filled])
        self._size, self._filled = max(rows, min(self._rows, _BLOCK)), 0
        self._block = {name: np.empty(self._size, dtype) for name, dtype in self._dtypes.items()}

    def _parts(self, name: str) -> list[Array]:
        return [*self._full[name], self._block[name][: self._filled]]

    def finish(self, *, keeps_order: bool = False) -> T:
        """The table, rows in the order of their start; those of equal start in the order of the file.

        Takes one column at a time out of the buffer, so that the peak is one column more than the table.

        Args:
            keeps_order: Keep the place that each row has in the file, in `order`.
        """
        done: dict[str, Array] = {}
        order = None
        for name, dtype in self._dtypes.items():  # the start comes first
            values = _joined(self._parts(name), dtype)
            del self._full[name], self._block[name]
            if name == "start_ns" and not (values[1:] >= values[:-1]).all():
                order = np.argsort(values, kind="stable")
            done[name] = values if order is None else values[order]
        self.order = order if keeps_order else None
        return self.table(**done)


def _joined(parts: list[Array], dtype: np.dtype[Any]) -> Array:
    parts = [part for part in parts if len(part)]
    if len(parts) == 1 and parts[0].base is None:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def profiler_start(spans: Sequence[Event]) -> int | None:
    """The first start of the profiler's own spans in the file's clock, in nanoseconds; None if none is readable."""
    own = list(filter(is_own_span, spans))
    starts = nanoseconds([span.ts for span in own], len(own))
    known = starts[starts != INVALID]
    return int(known[0]) if known.size else None


def is_own_span(span: Event) -> bool:
    """Whether a span is that of the whole recording."""
    return span.name.startswith("PyTorch Profiler")


_MEMORY = "[memory]"
_ALLOCATED = {phase for field in TABLES[TableGroup.INSTANT].required if field.key == "ph" for phase in field.allowed}
"""Phases of records of memory."""


MOST_RECORDED = 16
"""Most profilers whose events are told apart in a file (own choice: the ranks of two machines; to stop at the span of
each takes the scan a millisecond)."""


class Recorded(NamedTuple):
    """What a profiler wrote until its own span, which is about the last thing that it writes."""

    rows: dict[str, int]
    """By table: the rows until then, with all of earlier profilers."""
    profiler_start: int | None
    """Start of the span, in the file's clock."""


class Collector:
    """Sorts events into tables. Strings become codes of the pools; code 0 of the pools of arguments is "none"."""

    def __init__(self) -> None:
        self.pools: dict[str, StringPool[Any]] = {name: StringPool(*none_of(name)) for name in POOLS}
        self.threads_of = ThreadsOfProcesses(self.pools["threads"])
        self.losses: Counter[str] = Counter()
        self.forms: Counter[tuple[str, str]] = Counter()
        """By phase and category: the number of events whose phase nothing here understands for their category."""
        self.elements = 0
        """Elements of the event array, whatever they are."""
        self.profiler_start: int | None = None
        """Start of the profiler's own span, in the file's clock."""
        self.tables: dict[str, Buffer[Any]] = {table.name: Buffer(table.table) for table in TABLES.values()}
        self.categories = CategoryCounts()
        self.recorded: list[Recorded] = []
        """What each profiler wrote, in the order of the file; most files have one."""

    def rows(self) -> dict[str, int]:
        """By table the number of its rows."""
        return {name: len(table) for name, table in self.tables.items()}

    def add(self, events: Sequence[Event]) -> None:
        """Add one window of events."""
        self.elements += len(events)
        if not events:
            return
        categories = self.categories.codes(events)
        groups = np.array(self.categories.groups, np.uint8)[categories]
        if (unclear := np.array(self.categories.by_content)[categories]).any():
            groups = accelerators.told_apart(events, groups, unclear)
        start = 0
        for place in np.flatnonzero(groups == TableGroup.SPAN).tolist():
            part = slice(start, place)
            self._add_stretch(events[part], groups[part], categories[part])
            own = profiler_start(events[place : place + 1])
            self.profiler_start = own if self.profiler_start is None else self.profiler_start
            if is_own_span(events[place]):
                self.recorded.append(Recorded(self.rows(), own))
            start = place + 1
        rest = events[start:] if start else events
        self._add_stretch(rest, groups[start:], categories[start:])

    def _add_stretch(self, events: Sequence[Event], groups: Array, categories: I32) -> None:
        """Add events of which none is the profiler's own span."""
        if not events:
            return
        slices = groups <= TableGroup.GRAPH_NODE
        self._add_slices(where(slices, events), groups[slices], categories[slices])
        if (flows := groups == TableGroup.FLOW).any():
            self._add_ends("flows", "flow", where(flows, events))
        if (arrows := groups == TableGroup.ARROW).any():
            between = (event for event in where(arrows, events) if isinstance(event.id, int))
            self._add_ends("dependencies", "arrow", [event for event in between if event.id >= FIRST_ARROW])
        if (instants := groups == TableGroup.INSTANT).any():
            self._add_instants(where(instants, events))

    def _add_slices(self, events: Sequence[Event], groups: Array, categories: I32) -> None:
        if is_general(events) and any(event.ph != SLICE for event in events):
            kept = np.array([event.ph == SLICE for event in events])
            self.forms.update((event.ph, event.cat) for event in events if event.ph != SLICE)
            events, groups, categories = where(kept, events), groups[kept], categories[kept]
        start, dur = self._times(events), durations(events)
        valid = start != INVALID
        self._settle(dur)
        normalized = np.array(self.categories.normalized, np.uint8)[categories]
        counts = np.bincount(groups, minlength=len(TableGroup)).tolist()
        for group, table in TABLES.items():
            if counts[group] and (rows := (groups == group) & valid).any():
                chosen = where(rows, events)
                columns = {
                    "start_ns": start[rows],
                    "dur_ns": dur[rows],
                    "name": self.pools["names"].codes([event.name for event in chosen], len(chosen)),
                    "category": normalized[rows],
                }
                if group == TableGroup.ACCELERATOR:
                    columns |= accelerators.columns(chosen, self.pools["names"].encode)
                self._extend(table, chosen, columns)

    def _extend(self, table: EventTable, events: Sequence[Event], columns: dict[str, Array]) -> None:
        """Append events to their table.

        Args:
            table: The table.
            events: The events.
            columns: The columns that are no thread and no argument.
        """
        args = args_of(events) if table.arguments else []
        for field in table.fields:
            if field.kind is Kind.PAIR:
                columns[field.column] = self.threads_of.codes(events)
            elif field.is_argument:
                columns[field.column] = self._column(field, args)
        self.tables[table.name].extend(columns, {})

    def _column(self, field: Field, args: Sequence[Args]) -> Array:
        """The column that an argument fills."""
        if field.kind in WHOLES:
            return descriptions(args, DESCRIPTIONS[field.pool], self.pools[field.pool])
        values = list(map(attrgetter(attribute(field.key)), args))
        match field.kind:
            case Kind.NAMED:
                return self._named(values)
            case Kind.NUMBER:
                return floats(values)
            case Kind.SMALL:
                return small(integers(values))
        found = self._codes_or_integers(field, values)
        if field.older and (missing := found == field.none).any():
            older = list(map(attrgetter(attribute(field.older)), args))
            found = np.where(missing, self._codes_or_integers(field, older), found)
        return found

    def _codes_or_integers(self, field: Field, values: list[Any]) -> Array:
        if field.kind is Kind.TEXT:
            return texts(values, self.pools[field.pool])
        return integers(values, field.missing)

    def _named(self, named: list[Any]) -> I32:
        """Codes of the kernels that calls name; most writers name none."""
        codes = np.full(len(named), UNKNOWN, np.int32)
        if named.count("") < len(named):
            rows = [row for row, name in enumerate(named) if name and isinstance(name, str)]
            codes[rows] = self.pools["names"].codes((named[row] for row in rows), len(rows))
        return codes

    def _times(self, events: Sequence[Event]) -> I64:
        start = nanoseconds([event.ts for event in events], len(events))
        if lost := int(np.count_nonzero(start == INVALID)):
            self.losses["read-no-time"] += lost
        return start

    def _settle(self, dur: I64) -> None:
        """Set missing, unreadable and negative durations to 0, and count them."""
        if not dur.size or dur.min() >= 0:
            return
        for bad, loss in (
            (dur == INVALID, "read-no-duration"),
            ((dur < 0) & (dur != INVALID), "read-negative-duration"),
        ):
            if count := int(bad.sum()):
                self.losses[loss] += count
        np.maximum(dur, 0, out=dur)

    def _add_ends(self, table: str, number: str, events: Sequence[Event]) -> None:
        """Append ends of arrows.

        Args:
            table: Name of the table.
            number: The column of the number that both ends share.
            events: The events.
        """
        start = self._times(events)
        valid = start != INVALID
        events = where(valid, events)
        columns = {
            "start_ns": start[valid],
            "thread": self.threads_of.codes(events),
            number: np.array(
                [e.id if isinstance(e.id, int) and abs(e.id) < 2**63 else UNKNOWN for e in events], np.int64
            ),
            "is_start": np.array([e.ph == "s" for e in events]),
        }
        self.tables[table].extend(columns, {})

    def _add_instants(self, events: Sequence[Event]) -> None:
        memory: list[Event] = []
        counters: list[Event] = []
        for event in events:
            if event.name == _MEMORY and event.ph in _ALLOCATED:
                memory.append(event)
            elif event.ph == COUNTED:
                if not event.cat:
                    counters.append(event)
            elif event.ph == SLICE and event.cat:
                self.forms[event.ph, event.cat] += 1
            elif event.ph == SLICE:
                self.losses["read-no-category"] += 1
        self._add_points(TableGroup.INSTANT, memory)
        self._add_points(TableGroup.COUNTER, counters)

    def _add_points(self, group: TableGroup, events: Sequence[Event]) -> None:
        if not events:
            return
        start, table = self._times(events), TABLES[group]
        valid = start != INVALID
        kept = where(valid, events)
        columns = {"start_ns": start[valid]}
        if "name" in POOL_OF[table.name]:
            columns["name"] = self.pools["names"].codes([event.name for event in kept], len(kept))
        self._extend(table, kept, columns)
