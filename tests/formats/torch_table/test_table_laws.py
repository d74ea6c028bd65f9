"""Printed tables can be read back, and their figures add up."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.torch_table.averages import key_averages
from traceanalyzer.analyzers.operators.key_averages import EventAverage, KeyAverages
from traceanalyzer.formats.torch_table import SORT_KEYS, render
from traceanalyzer.readers.key_averages import read
from traceanalyzer.trace.document import ProfilerTable, TableRow

TIMES = ("self_cpu_ns", "cpu_total_ns", "self_device_ns", "device_total_ns")
SIZES = ("cpu_mem_bytes", "self_cpu_mem_bytes", "device_mem_bytes", "self_device_mem_bytes")

COLUMNS = {
    "count": "calls",
    "flops": "flops",
    "cpu_time": "cpu_avg_ns",
    "cpu_time_total": "cpu_total_ns",
    "self_cpu_time_total": "self_cpu_ns",
    "cpu_memory_usage": "cpu_mem_bytes",
    "self_cpu_memory_usage": "self_cpu_mem_bytes",
    "device_time": "device_avg_ns",
    "device_time_total": "device_total_ns",
    "self_device_time_total": "self_device_ns",
    "device_memory_usage": "device_mem_bytes",
    "self_device_memory_usage": "self_device_mem_bytes",
}
"""What a sort key sorts, as it is read back."""


def read_back(averages: KeyAverages, **request: Any) -> ProfilerTable:
    text = render(averages, name_width=None, shapes_width=None, **request)
    document = read(text, "table.txt", len(text))
    assert not document.losses
    (table,) = document.tables
    return table


def assert_same(read: TableRow, written: EventAverage) -> None:
    assert (read.name, read.calls) == (written.name, written.calls)
    for column in (*TIMES, *SIZES, "flops"):
        value = getattr(read, column)
        if value is not None:
            assert abs(value - getattr(written, column)) <= math.ceil(read.resolution[column] / 2), column
    if read.input_shapes is not None:
        assert read.input_shapes == written.input_shapes


@given(key_averages())
def test_rows_read_back(averages: KeyAverages) -> None:
    table = read_back(averages, row_limit=-1)
    assert len(table.rows) == len(averages.rows)
    for found, written in zip(table.rows, averages.rows, strict=True):
        assert_same(found, written)


@given(key_averages())
def test_self_times_add_up_to_the_totals(averages: KeyAverages) -> None:
    totals = read_back(averages, row_limit=1).totals  # of all rows, shown or not
    cpu = sum(row.self_cpu_ns for row in averages.rows)
    assert totals.self_cpu_ns is not None
    assert abs(totals.self_cpu_ns - cpu) <= totals.resolution["self_cpu_ns"]
    device = sum(row.self_device_ns for row in averages.rows if row.on_device and not row.is_user_annotation)
    if totals.self_device_ns is not None:
        assert abs(totals.self_device_ns - device) <= totals.resolution["self_device_ns"]


@given(key_averages(), st.sampled_from(SORT_KEYS), st.integers(0, 9))
def test_sorting_changes_the_order_and_nothing_else(averages: KeyAverages, key: str, limit: int) -> None:
    plain, ordered = (render(averages, sort_by=by, row_limit=-1).splitlines() for by in (None, key))
    assert sorted(plain) == sorted(ordered)
    assert render(averages, sort_by=key, row_limit=limit).splitlines()[3:-1][:limit] == ordered[3:-1][:limit]


@pytest.mark.parametrize("key", SORT_KEYS)
@given(averages=key_averages())
def test_the_largest_comes_first(key: str, averages: KeyAverages) -> None:
    column = COLUMNS[re.sub("cuda|xpu|privateuse1", "device", key)]
    values = [getattr(row, column) for row in read_back(averages, sort_by=key, row_limit=-1).rows]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=True)
