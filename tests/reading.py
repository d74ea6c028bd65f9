"""Traces from bytes, and what is in them as plain data that can be compared."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from tests.builders import Layout, TraceBuilder
from traceanalyzer.readers.kineto import reader
from traceanalyzer.readers.source import Source
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace, all_tables
from traceanalyzer.trace.tables import Category

LOST = frozenset(
    {
        "read-lost-event",
        "read-absurd-time",
        "read-no-time",
        "read-no-category",
        "read-phase",
        "read-unsupported",
        "read-many-categories",
    }
)
"""Losses that count events which are in the file and in no table."""

Row = dict[str, Any]


def read(data: bytes, name: str = "trace.json", jobs: int = 1) -> Trace:
    """The trace in a text, plain or compressed; decoded by several processes however short it is."""
    return reader.read(Source(io.BytesIO(data), name, len(data), lambda _: None), jobs, worthwhile=0)


def plain(report: Report) -> dict[str, Any]:
    """The analyses of a report as its JSON has them."""
    analyses: dict[str, Any] = json.loads(msgspec.json.encode(report))["analyses"]
    return analyses


def assert_reads_back(text: str | bytes, report: Report) -> None:
    """The JSON of a report holds everything that the report does, and gives the same JSON again."""
    again = msgspec.json.decode(text, type=Report)
    assert msgspec.structs.replace(again, analyses={}) == msgspec.structs.replace(report, analyses={})
    assert plain(again) == plain(report)
    for key, result in report.analyses.items():
        if not isinstance(result, dict | list | tuple):
            assert again.result(key, type(result)) == result


def read_built(trace: TraceBuilder, layout: Layout | None = None) -> Trace:
    """The trace that a builder writes."""
    return read(trace.to_bytes(layout))


def table_rows(trace: Trace, name: str) -> list[Row]:
    """The rows of one table with every code decoded."""
    table = all_tables(trace)[name]
    pools: Mapping[str, Any] = {
        "name": trace.names,
        "kernel": [*trace.names, None],  # -1 is unknown
        "task": trace.names,
        "shapes": trace.shapes,
        "types": trace.types,
        "strides": trace.strides,
        "concrete": trace.concrete,
        "grid": trace.dims,
        "block": trace.dims,
        "collective": trace.collectives,
        "source": trace.sources,
        "detail": trace.details,
        "thread": [(thread.pid, thread.tid) for thread in trace.threads],
        "category": [category.name for category in Category],
    }
    columns = {}
    for column in table.columns():
        values = getattr(table, column.name).tolist()
        assert column.name in pools or not column.meaning.startswith(("code of", "row of")), column.name
        if column.name in pools:
            values = [pools[column.name][code] for code in values]
        # NaN is "unknown", and two unknowns are the same
        columns[column.name] = [None if value != value else value for value in values]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def content(trace: Trace) -> dict[str, list[Row]]:
    """All tables as plain rows."""
    return {name: table_rows(trace, name) for name in all_tables(trace)}


def rows_in_file_time(trace: Trace) -> Counter[str]:
    """All rows, each with its time in the clock of the file, so that a lost event changes no other."""
    origin = trace.info.origin_ns
    return Counter(
        repr((table, row | {"start_ns": row["start_ns"] + origin}))
        for table, found in content(trace).items()
        for row in found
    )


def rows_read(trace: Trace, *without: str) -> int:
    """How many rows all tables but some have."""
    return sum(len(table) for name, table in all_tables(trace).items() if name not in without)


def losses(trace: Trace) -> Counter[str]:
    """How often each loss occurred."""
    counts: Counter[str] = Counter()
    for loss in trace.losses:
        counts[loss.id] += loss.count
    return counts


def lost_events(trace: Trace) -> int:
    """Number of events that the reader counted as losses."""
    cut = sum(loss.id == "read-truncated" and loss.params["bytes"] > 0 for loss in trace.losses)
    return sum(count for loss, count in losses(trace).items() if loss in LOST) + cut
