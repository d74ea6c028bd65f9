"""Each argument that a column is declared with fills it, in both ways of reading; `scripts/new_field.py` adds one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.readers.kineto.events import ARGS_FIELDS
from traceanalyzer.readers.kineto.fields import TABLES, Field, Kind, attribute

CATEGORY_OF = {
    "host": "cpu_op",
    "launches": "cuda_runtime",
    "device": "kernel",
    "frames": "python_function",
    "syncs": "cuda_sync",
    "memory": "cpu_instant_event",
    "counters": "",
    "graph_nodes": "graph_host_node",
}
"""By table with arguments: a category of its events."""

NUMBERS = [
    pytest.param(table.name, field, id=f"{table.name} {field.key}")
    for table in TABLES.values()
    for field in table.arguments
    if field.kind in (Kind.INTEGER, Kind.SMALL, Kind.NUMBER) and field.key  # counters have a test of their own
]


def column_of(table: str, column: str, key: str, *values: Any) -> list[Any]:
    """What a column holds for events with these values of an argument; None is an event without it."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 1)
    for start, value in enumerate(values, start=1):
        event: dict[str, Any] = {"ph": "X", "cat": CATEGORY_OF[table], "name": "event", "pid": 0, "tid": 7, "dur": 1}
        if table == "memory":
            event |= {"ph": "i", "name": "[memory]"}
        if table == "counters":
            event |= {"ph": "C"}
        trace.raw(event | {"ts": trace.stamp(start), "args": {} if value is None else {key: value}})
    found: list[Any] = getattr(getattr(read_built(trace), table), column)[-len(values) :].tolist()
    return found


@pytest.mark.parametrize(("table", "field"), NUMBERS)
def test_an_argument_fills_its_column(table: str, field: Field) -> None:
    none = float("nan") if field.kind is Kind.NUMBER else field.missing
    plain = column_of(table, field.column, field.key, 3, None)
    assert plain == pytest.approx([3, none], nan_ok=True)
    odd = column_of(table, field.column, field.key, 3, "3", "x", None)
    assert odd == pytest.approx([3, 3, none, none], nan_ok=True)
    if field.older:
        assert column_of(table, field.column, field.older, 3, None) == plain


def test_numbers_beyond_the_column_are_unknown() -> None:
    assert column_of("device", "registers", "registers per thread", 2**31, 255) == [-1, 255]


def test_columns_with_arguments_have_a_test_category() -> None:
    assert set(CATEGORY_OF) == {table.name for table in TABLES.values() if table.arguments}


def test_arguments_have_names_of_their_own() -> None:
    names = [attribute(key) for key in ARGS_FIELDS]
    assert len(set(names)) == len(names)
