"""Reads plain text straight into columns, where the compiled `_scan` was built; nothing but speed depends on it.

The scan knows JSON, and `fields` tells it what to read. Whatever it does not take for plain (damaged text, a
number in quotes, an unknown category, an unusual phase) it leaves to msgspec and a `Collector`, with the events around
it; of plain text they make the same part of the trace, but for the order of codes, which the reader settles.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.readers.kineto.columns import MOST_RECORDED, Collector, profiler_start
from traceanalyzer.readers.kineto.events import Args, Event, EventDecoder
from traceanalyzer.readers.kineto.fields import (
    BY_CONTENT,
    CATEGORIES,
    DESCRIPTIONS,
    OWN,
    POOLS,
    TABLES,
    WHOLES,
    Description,
    EventTable,
    Field,
    Kind,
    TableGroup,
    classify,
    none_of,
)
from traceanalyzer.readers.kineto.labels import with_labels
from traceanalyzer.readers.kineto.parts import Part, add, as_list, part_from, part_of
from traceanalyzer.readers.kineto.recovery import BORDER
from traceanalyzer.readers.kineto.values import described
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import Array

try:
    from traceanalyzer.readers.kineto import _scan
except ImportError:  # there was no compiler when the package was built
    scan = None
else:
    _source = Path(__file__).with_name("_scan.c")  # in a checkout, which may be newer than what was compiled there
    _is_current = not _source.exists() or getattr(_scan, "CHECKSUM", None) == zlib.crc32(_source.read_bytes())
    scan = _scan.scan if _is_current and tuple(Kind.__members__) == _scan.KINDS else None

_MOST_FAILURES = 8
"""Windows that may mostly be left to msgspec, beyond as many as are scanned, until the scan is given up."""

_SEED = int.from_bytes(os.urandom(8))
"""Of the scan's hash, so that nobody can make a file whose texts all have the same one; the trace is the same."""

_AROUND = 1 << 14
"""Bytes that are left to msgspec from an event on that is not plain, as the next ones often are not either (own choice:
all that describes processes and threads); twice as many each time that the next one is not plain."""

_MOST = 128
"""Most categories that are scanned; writers know some fifty."""

_COUNTED = -1
"""Instead of the number of a table: the events are only counted."""

_POOLS = (*POOLS, "phases")
"""Pools of texts: those of a `Collector`, and the phases of flows."""


def _text(value: str) -> bytes:
    """A string as it stands in the file, quotes included."""
    return msgspec.json.encode(value)


def _scanned(fields: Iterable[Field]) -> Iterator[Field]:
    """The fields that the scan tells apart: it makes another column of what earlier writers named differently."""
    for field in fields:
        yield field
        if field.older:
            yield replace(field, column=_OLD + field.column, key=field.older)


def _packed(field: Field) -> tuple[Any, ...]:
    """A field as `_scan` takes it."""
    pool = _POOLS.index(field.pool or "phases")
    known: tuple[bytes, ...] = ()
    if field.kind in WHOLES:
        description = DESCRIPTIONS[field.pool]
        allowed = tuple(key.encode() for key in description.told_by if key != field.key)
        if field.kind is Kind.SPREAD:
            known = tuple(key.encode() for key in (*description.told_with, *sorted(OWN)))
    else:
        allowed = tuple(map(_text, field.allowed))
    return field.key.encode(), int(field.is_argument), int(field.kind), pool, field.missing, allowed, known


_OLD = "old "
_TABLES = {group: table for group, table in TABLES.items() if group != TableGroup.ACCELERATOR}
_FIELDS = {table.name: tuple(_scanned(table.fields)) for table in _TABLES.values()}
_NUMBERS = {group: number for number, group in enumerate(_TABLES)} | dict.fromkeys(
    (TableGroup.IGNORED, TableGroup.UNKNOWN), _COUNTED
)
_COLUMNS = tuple(tuple(map(_packed, fields)) for fields in _FIELDS.values())
_BEGINS_EMPTY = tuple(name in POOLS and bool(none_of(name)) for name in _POOLS)
"""By pool: whether the first text is the one of "none recorded"."""

_WIDE: dict[Kind, type] = {
    Kind.INTEGER: np.int64,
    Kind.NUMBER: np.float64,
    Kind.TIME: np.int64,
    Kind.DURATION: np.int64,
    Kind.BEYOND: np.int64,
}
"""Types of columns; the others are 32 bits wide."""

_ARGS = msgspec.json.Decoder(Args)


Texts = list[tuple[bytes, bytes]]
"""The texts of a pool by code; the second of each is empty but for pairs."""


class ScanningDecoder:
    """Decodes windows to parts of the trace as far as they are plain, and to events otherwise."""

    def __init__(self) -> None:
        self._decoder = EventDecoder()
        self._numbers: dict[str, int] = {"": _NUMBERS[TableGroup.COUNTER]}
        """By category: the number of its table; of what has none, counters are scanned."""
        self._failures_left = _MOST_FAILURES
        self._spans = 0
        self._register(CATEGORIES)

    def decode(self, text: memoryview) -> Part | list[Any]:
        """The part that a list of events makes, or the events.

        Raises:
            DecodeError, UnicodeDecodeError, RecursionError: As from msgspec.
        """
        part, stop = self._scanned(text, [0, len(text) - 1])
        if stop is not None:
            with suppress(Exception):  # msgspec says of the whole list what is wrong
                return self._in_pieces(text, part, stop)
        elif part is not None:
            return part
        self._failures_left -= self._failures_left > 0
        return self._events(text)

    def part(self, text: memoryview, borders: list[int]) -> Part | None:
        """The part that some windows make, as of `part_from`; None after any error."""
        part, stop = self._scanned(text, borders)
        return part_from(self, text, borders) if part is None or stop is not None else part

    def _scanned(self, text: memoryview, borders: list[int]) -> tuple[Part | None, int | None]:
        """The part that plain events make up to the first that is not plain, if it is valid, and where that one is."""
        if scan is None or not self._failures_left:
            return None, None
        elements, counts, columns, texts, stop = scan(text, borders, self._known, _COLUMNS, _BEGINS_EMPTY, _SEED)
        part = _part(list(self._numbers), elements, counts, columns, texts)
        self._failures_left += part is not None and stop < 0
        return part, None if stop < 0 else stop

    def _in_pieces(self, text: memoryview, part: Part | None, stop: int) -> Part:
        """The part that a list makes in which an event at some place is not plain.

        The longer the events are not plain, the more is left to msgspec at once.

        Args:
            text: The list.
            part: What the events before that one make, if they are valid.
            stop: The place of that event.

        Raises:
            Exception: As from msgspec.
        """
        collector, end = Collector(), len(text) - 1
        start, left, at_once = 0, 0, _AROUND
        at: int | None = stop
        while at is not None:
            before = max(start, start + bytes(text[start:at]).rfind(b","))
            border = BORDER.search(text, at + at_once)
            after = border.start(1) if border else end
            if before > start:
                add(collector, part or self._events(as_list(text, start, before)))
            add(collector, self._events(as_list(text, before, after)))
            left += after - before
            part, at = self._scanned(text, [after, end]) if after < end else (None, None)
            at_once = 2 * at_once if at is not None and at - after < at_once else _AROUND
            start = after
        if start < end:
            add(collector, part or self._events(as_list(text, start, end)))
        self._failures_left -= 2 * left > end
        return part_of(collector)

    def _events(self, text: memoryview) -> list[Any]:
        """The events of a list from msgspec; their categories are looked for from now on."""
        events = self._decoder.decode(text)
        if self._failures_left:
            self._register({event.cat for event in events}, events)
        return events

    def _register(self, categories: Iterable[str], events: Sequence[Event] = ()) -> None:
        """Remember categories, as far as they alone tell the table, or as nothing more is read of their events.

        Args:
            categories: Those of the events.
            events: What was read; once there are more spans of the profiler than files that anybody merges, and its
                start is known, they are only counted.
        """
        for category in sorted(categories):
            group = classify(category)[0]
            if group is TableGroup.SPAN:
                spans = [event for event in events if event.cat == category]
                self._spans += len(spans)
                if self._spans > MOST_RECORDED and profiler_start(spans) is not None:
                    group = TableGroup.IGNORED
            if group in _NUMBERS and category.lower() not in BY_CONTENT and len(self._numbers) < _MOST:
                self._numbers.setdefault(category, _NUMBERS[group])
        self._known = tuple((_text(name) if name else b"", number) for name, number in self._numbers.items())


def _part(
    categories: Sequence[str],
    elements: int,
    counts: list[tuple[int, int]],
    columns: list[list[bytes]],
    texts: list[Texts],
) -> Part | None:
    """The part of the trace that a scan found; None if a string is not valid, or a value is there in two ways.

    Args:
        categories: By number.
        elements: Number of events.
        counts: By category: the number of its events, and the first of them.
        columns: By table: its columns.
        texts: By pool.
    """
    try:
        pools = _Pools(dict(zip(_POOLS, texts, strict=True)), categories)
        tables = {
            table.name: pools.settled(table, _arrays(table, buffers))
            for table, buffers in zip(_TABLES.values(), columns, strict=True)
            if any(buffers)
        }
    except (msgspec.DecodeError, ValueError):
        return None
    seen = sorted((first, name, count) for name, (count, first) in zip(categories, counts, strict=True) if count)
    return Part(
        elements=elements,
        losses={},
        forms={},
        profiler_start=None,
        categories={name: count for _, name, count in seen},
        pools=pools.values,
        tables=tables,
    )


def _arrays(table: EventTable, buffers: list[bytes]) -> dict[str, Array]:
    columns = zip(_FIELDS[table.name], buffers, strict=True)
    return {f.column: np.frombuffer(data, _WIDE.get(f.kind, np.int32)) for f, data in columns if f.column}


class _Pools:
    """What the codes of a scan stand for."""

    def __init__(self, texts: dict[str, Texts], categories: Sequence[str]) -> None:
        """Decode the texts.

        Raises:
            DecodeError, ValueError: A string is not valid after all.
        """
        self._categories = np.array([classify(name)[1] or 0 for name in categories], np.uint8)
        self._is_start = np.array([text == "s" for text in _strings(text for text, _ in texts["phases"])], np.uint8)
        self.values: dict[str, list[Any]] = {name: [text for text, _ in texts[name]] for name in POOLS}
        """By pool of a `Collector`: its values by code."""
        processes, threads = (_strings(pair[i] for pair in texts["threads"]) for i in (0, 1))
        self.values["names"] = _strings(self.values["names"])
        self.values["threads"] = list(zip(processes, threads, strict=True))
        self._described: dict[str, Array] = {}
        """By pool of descriptions: the code of the one that each scanned text is."""
        for name, description in DESCRIPTIONS.items():
            self.values[name], self._described[name] = _descriptions(self.values[name], description)

    def settled(self, table: EventTable, columns: dict[str, Array]) -> dict[str, Array]:
        """The columns of a table as the trace has them.

        Raises:
            ValueError: An event has a value both as it is written now and as it was written once.
        """
        for field in table.fields:
            name = field.column
            old = columns.pop(_OLD + name, None)
            if old is not None and (old != field.none).any():
                if ((old != field.none) & (columns[name] != field.none)).any():
                    raise ValueError(name)
                columns[name] = np.where(columns[name] == field.none, old, columns[name])
            if field.kind is Kind.CATEGORY:
                columns[name] = self._categories.take(columns[name])
            elif field.kind in WHOLES:
                columns[name] = self._described[field.pool].take(columns[name])
            elif field.pool == "phases":
                columns[name] = self._is_start.take(columns[name])
        return columns


def _strings(texts: Iterable[bytes]) -> list[Any]:
    """What JSON texts stand for; a missing one is an empty string."""
    decoded: list[Any] = msgspec.json.decode(b"[" + b",".join(text or b'""' for text in texts) + b"]")
    return decoded


def _descriptions(texts: list[bytes], description: Description) -> tuple[list[Any], Array]:
    """What the texts of arguments describe, each thing once, and for each text the code of it."""
    pool: StringPool[Any] = StringPool(description.none)
    decoded = [_ARGS.decode(text) if text else None for text in texts]
    if description.told_with:
        decoded = [args and with_labels(args, text) for args, text in zip(decoded, texts, strict=True)]
    codes = [pool.encode(described(args, description)) if args and description.is_told(args) else 0 for args in decoded]
    return pool.values(), np.array(codes, np.int32)
