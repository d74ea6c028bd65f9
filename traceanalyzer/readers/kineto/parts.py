"""Parts of a trace whose windows were collected apart from the others, and how they are put together again.

A part has its own codes: its pools contain its own strings. Parts that are joined in the order of their windows give
exactly the tables that one collector would have made from all windows, whatever the order of codes.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.readers.kineto.columns import Collector, Recorded
from traceanalyzer.readers.kineto.fields import POOL_OF
from traceanalyzer.readers.kineto.windows import Decoder
from traceanalyzer.trace.table import UNKNOWN, Array

_ALIGNMENT = 8
"""Bytes; columns begin at multiples of it."""


class Part(msgspec.Struct, frozen=True):
    """What some windows add to a trace."""

    elements: int
    losses: Mapping[str, int]
    forms: Mapping[tuple[str, str], int]
    profiler_start: int | None
    categories: Mapping[str, int]
    """Number of events by category, in the order of first appearance."""
    pools: Mapping[str, list[Any]]
    """What the codes of each pool stand for."""
    tables: Mapping[str, Mapping[str, Array]]
    """The columns of the tables that have rows."""
    recorded: Sequence[Recorded] = ()
    """As of a `Collector`."""


def part_from(decoder: Decoder, text: memoryview, borders: Sequence[int]) -> Part | None:
    """The part that some windows make, which follow one another; None after any error.

    Whoever needs the part then decodes the windows again, finds the same error, and knows what to do about it.

    Args:
        decoder: Decodes each window, to events or to the part that it makes.
        text: Contains the windows, and is not changed.
        borders: The offset of the byte before each window, and of the one after the last.
    """
    collector = Collector()
    try:
        for start, cut in pairwise(borders):
            add(collector, decoder.decode(as_list(text, start, cut)))
    except Exception:
        return None
    return part_of(collector)


def as_list(text: memoryview, start: int, cut: int) -> memoryview:
    """A copy of the events between two borders, as a list."""
    window = bytearray(text[start : cut + 1])
    window[0], window[-1] = b"[]"
    return memoryview(window)


def add(collector: Collector, found: Part | list[Any]) -> None:
    """Append what a decoder found in a window."""
    if isinstance(found, Part):
        join(collector, found)
    else:
        collector.add(found)


def part_of(collector: Collector) -> Part:
    """The part that all windows of a collector make."""
    return Part(
        elements=collector.elements,
        losses=collector.losses,
        forms=collector.forms,
        profiler_start=collector.profiler_start,
        categories=dict(zip(collector.categories.names, collector.categories.counts.tolist(), strict=True)),
        pools={name: pool.values() for name, pool in collector.pools.items()},
        tables={name: table.columns() for name, table in collector.tables.items() if len(table)},
        recorded=collector.recorded,
    )


def join(collector: Collector, part: Part) -> None:
    """Append a part to the columns of the windows before it."""
    collector.elements += part.elements
    collector.losses.update(part.losses)
    collector.forms.update(part.forms)
    collector.categories.add(list(part.categories), np.array(list(part.categories.values()), np.int64))
    if collector.profiler_start is None:
        collector.profiler_start = part.profiler_start
    if part.recorded:
        before = collector.rows()
        collector.recorded += (
            own._replace(rows={name: before[name] + rows for name, rows in own.rows.items()}) for own in part.recorded
        )
    codes = {name: _codes(collector, name, values) for name, values in part.pools.items()}
    for name, columns in part.tables.items():
        collector.tables[name].extend(columns, {key: codes[pool] for key, pool in POOL_OF[name].items()})


def _codes(collector: Collector, pool: str, values: list[Any]) -> Array:
    """For each code of a part the code of the same value in the collector; the last one is that of -1."""
    if pool == "threads":
        found = collector.threads_of.codes_of(values, len(values)).tolist()
    else:
        found = map(collector.pools[pool].encode, values)
    return np.array([*found, UNKNOWN], np.int32)


def pack(part: Part, room: memoryview) -> list[int] | None:
    """Write a part into memory from which another process reads it.

    Returns:
        The sizes of what was written, for `unpack`; None if there is not enough room.
    """
    columns: list[pickle.PickleBuffer] = []
    described = pickle.dumps(part, 5, buffer_callback=columns.append)
    pieces = [memoryview(described), *(column.raw() for column in columns)]
    sizes = [len(piece) for piece in pieces]
    starts = _starts(sizes)
    if starts[-1] > len(room):
        return None
    for start, piece in zip(starts, pieces, strict=False):
        room[start : start + len(piece)] = piece
    return sizes


def unpack(room: memoryview, sizes: list[int]) -> Part:
    """Read a part that `pack` has written; its columns are valid while the memory stays as it is."""
    described, *columns = (room[start : start + size] for start, size in zip(_starts(sizes), sizes, strict=False))
    part: Part = pickle.loads(described, buffers=columns)  # noqa: S301 - written by a process of ours
    return part


def _starts(sizes: list[int]) -> list[int]:
    """Where pieces of these sizes start, and where the last one ends."""
    return list(accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0))
