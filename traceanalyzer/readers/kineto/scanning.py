"""Reads plain text straight into columns, where the compiled `_scan` was built; nothing but speed depends on it.

The scan knows JSON, and `scan_tables` tells it what to read. Whatever it does not take for plain (damaged text, a
number in quotes, an unknown category, an unusual phase) it leaves to msgspec and a `Collector`, which make the same
part of the trace of plain text, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.readers.kineto.accelerators import BY_CONTENT
from traceanalyzer.readers.kineto.categories import CATEGORIES, TableGroup, classify
from traceanalyzer.readers.kineto.decoding import EventDecoder
from traceanalyzer.readers.kineto.events import Args
from traceanalyzer.readers.kineto.parts import Part, part_from
from traceanalyzer.readers.kineto.scan_tables import POOLS, TABLES, Kind, ScanTable
from traceanalyzer.readers.kineto.values import collective_of, source_of
from traceanalyzer.trace.model import NO_COLLECTIVE, NO_SOURCE
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import UNKNOWN, Array

try:
    from traceanalyzer.readers.kineto import _scan
except ImportError:  # there was no compiler when the package was built
    scan = None
else:
    _source = Path(__file__).with_name("_scan.c")  # in a checkout, which may be newer than what was compiled there
    _is_current = not _source.exists() or getattr(_scan, "CHECKSUM", None) == zlib.crc32(_source.read_bytes())
    scan = _scan.scan if _is_current and tuple(Kind.__members__) == _scan.KINDS else None

_PATIENCE = 8
"""Windows that may be left to msgspec, beyond as many as are scanned, until the scan is given up."""

_MOST = 128
"""Most categories that are scanned; writers know some fifty."""

_COUNTED = -1
"""Instead of the number of a table: the events are only counted."""

_NUMBERS = {group: number for number, group in enumerate(TABLES)} | dict.fromkeys(
    (TableGroup.IGNORED, TableGroup.UNKNOWN), _COUNTED
)
_COLUMNS = tuple(tuple(column.packed() for column in table.columns) for table in TABLES.values())
_BEGINS_EMPTY = tuple(name not in ("names", "threads", "phases") for name in POOLS)
"""By pool: whether the first text is the one of "none recorded"."""

_WIDE: dict[Kind, type] = {
    Kind.INTEGER: np.int64,
    Kind.NUMBER: np.float64,
    Kind.TIME: np.int64,
    Kind.DURATION: np.int64,
}
"""Types of columns; the others are 32 bits wide."""

_ARGS = msgspec.json.Decoder(Args)


def _text(value: str) -> bytes:
    """A string as it stands in the file, quotes included."""
    return msgspec.json.encode(value)


Texts = list[tuple[bytes, bytes]]
"""The texts of a pool by code; the second of each is empty but for pairs."""


class ScanningDecoder:
    """Decodes windows to parts of the trace as far as they are plain, and to events otherwise."""

    def __init__(self) -> None:
        self._decoder = EventDecoder()
        self._numbers: dict[str, int] = {}
        """By category: the number of its table."""
        self._patience = _PATIENCE
        self._learn(CATEGORIES)

    def decode(self, text: memoryview) -> Part | list[Any]:
        """The part that a list of events makes, or the events.

        Raises:
            DecodeError, UnicodeDecodeError, RecursionError: As from msgspec.
        """
        part = self._scanned(text, [0, len(text) - 1])
        if part is not None:
            return part
        events = self._decoder.decode(text)
        if self._patience:
            self._learn({event.cat for event in events})
        return events

    def part(self, text: memoryview, borders: list[int]) -> Part | None:
        """The part that some windows make, as of `part_from`; None after any error."""
        part = self._scanned(text, borders)
        return part_from(self, text, borders) if part is None else part

    def _scanned(self, text: memoryview, borders: list[int]) -> Part | None:
        if scan is None or not self._patience:
            return None
        known = tuple((_text(name), number) for name, number in self._numbers.items())
        found = scan(text, borders, known, _COLUMNS, _BEGINS_EMPTY)
        part = None if found is None else _part(list(self._numbers), *found)
        self._patience += -1 if part is None else 1
        return part

    def _learn(self, categories: Iterable[str]) -> None:
        """Remember categories, as far as they alone tell the table."""
        for category in sorted(categories):
            group = classify(category)[0]
            if group in _NUMBERS and category.lower() not in BY_CONTENT and len(self._numbers) < _MOST:
                self._numbers.setdefault(category, _NUMBERS[group])


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
        pools = _Pools(dict(zip(POOLS, texts, strict=True)), categories)
        tables = {
            table.name: pools.settled(_arrays(table, found))
            for table, found in zip(TABLES.values(), columns, strict=True)
            if any(found)
        }
    except (msgspec.DecodeError, ValueError):
        return None
    seen = sorted((first, name, count) for name, (count, first) in zip(categories, counts, strict=True) if count)
    return Part(
        elements=elements,
        losses={},
        profiler_start=None,
        categories={name: count for _, name, count in seen},
        pools=pools.values,
        tables=tables,
    )


def _arrays(table: ScanTable, found: list[bytes]) -> dict[str, Array]:
    columns = zip(table.columns, found, strict=True)
    return {c.name: np.frombuffer(data, _WIDE.get(c.kind, np.int32)) for c, data in columns if c.name}


class _Pools:
    """What the codes of a scan stand for."""

    def __init__(self, texts: dict[str, Texts], categories: Sequence[str]) -> None:
        """Decode the texts.

        Raises:
            DecodeError, ValueError: A string is not valid after all.
        """
        self._categories = np.array([classify(name)[1] or 0 for name in categories], np.uint8)
        self._phases = _strings(text for text, _ in texts["phases"])
        collectives, self._collectives = _recoded(
            texts["collectives"], NO_COLLECTIVE, lambda args: args.collective != "", collective_of
        )
        sources, self._sources = _recoded(
            texts["sources"], NO_SOURCE, lambda args: args.kernel_backend != "", source_of
        )
        processes, threads = (_strings(pair[i] for pair in texts["threads"]) for i in (0, 1))
        raw = {name: [text for text, _ in texts[name]] for name in ("shapes", "types", "dims", "strides", "concrete")}
        self.values: dict[str, list[Any]] = {
            "names": _strings(text for text, _ in texts["names"]),
            "threads": list(zip(processes, threads, strict=True)),
            "collectives": collectives,
            "sources": sources,
            **raw,
        }
        """By pool of a `Collector`: its values by code."""

    def settled(self, columns: dict[str, Array]) -> dict[str, Array]:
        """The columns of a table as the trace has them.

        Raises:
            ValueError: An event has a value both as it is written now and as it was written once.
        """
        for name, none in (("external_id", UNKNOWN), ("shapes", 0)):
            old = columns.pop(f"old_{name}", None)
            if old is not None and (old != none).any():
                if ((old != none) & (columns[name] != none)).any():
                    raise ValueError(name)
                columns[name] = np.where(columns[name] == none, old, columns[name])
        for name, values in (
            ("category", self._categories),
            ("collective", self._collectives),
            ("source", self._sources),
        ):
            if name in columns:
                columns[name] = values.take(columns[name])
        if "is_start" in columns:
            columns["is_start"] = np.array([text == "s" for text in self._phases], np.uint8).take(columns["is_start"])
        return columns


def _strings(texts: Iterable[bytes]) -> list[Any]:
    """What JSON texts stand for; a missing one is an empty string."""
    found: list[Any] = msgspec.json.decode(b"[" + b",".join(text or b'""' for text in texts) + b"]")
    return found


def _recoded(
    texts: Texts, none: Any, is_told: Callable[[Args], bool], described: Callable[[Args], Any]
) -> tuple[list[Any], Array]:
    """What some arguments describe, each once, and for each text of the arguments the code of it."""
    pool: StringPool[Any] = StringPool(none)
    decoded = [_ARGS.decode(text) if text else None for text, _ in texts]
    codes = [pool.encode(described(args)) if args and is_told(args) else 0 for args in decoded]
    return pool.values(), np.array(codes, np.int32)
