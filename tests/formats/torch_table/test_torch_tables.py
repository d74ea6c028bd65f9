"""Our tables of the captured traces are torch's, character by character."""

from __future__ import annotations

from functools import cache

import pytest

import traceanalyzer as ta
from tests.formats.torch_table.printed import CAPTURED, NAMES, Printed, printed
from traceanalyzer.analyzers.operators import key_averages
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace

TABLES = [(name, table) for name in NAMES for table in printed(name)]


def loaded(name: str) -> Trace:
    trace = ta.load(CAPTURED / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    return trace


@cache
def context(name: str) -> Context:
    return Context(loaded(name))


@pytest.mark.parametrize(("name", "torch"), TABLES, ids=[f"{name}: {table.title}" for name, table in TABLES])
def test_the_table_is_the_one_that_torch_prints(name: str, torch: Printed) -> None:
    assert torch.ours(context(name)).splitlines() == torch.text.splitlines()


def test_torch_printed_all_kinds_of_tables() -> None:
    assert {"plain", "convnet_everything", "autocast_stacks", "transformer_memory", "two_threads"} <= set(NAMES)
    titles = " ".join(table.title for _, table in TABLES)
    orders = ("None", "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "count", "flops")
    assert all(f"sort_by={order}" in titles for order in (*orders, "self_cpu_memory_usage"))
    headers = " ".join(line for _, table in TABLES for line in table.text.splitlines()[1:2])
    assert all(column in headers for column in ("CPU Mem", "Input Shapes", "Total KFLOPs"))
    assert sum(len(table.text.splitlines()) - 5 for _, table in TABLES) > 1500


def test_a_change_of_one_nanosecond_would_be_seen() -> None:
    name, torch = next((name, table) for name, table in TABLES if name == "plain")
    trace = loaded(name)
    trace.host.dur_ns.flags.writeable = True
    trace.host.dur_ns[:] += 1
    assert torch.ours(Context(trace)) != torch.text


def test_tables_of_torch_2_14_have_no_python_functions() -> None:
    """Everything else is as in 2.13."""
    usual, found = (key_averages.analyze(context("autocast_stacks"), python_functions=flag) for flag in (True, False))
    left_out = [row for row in usual.rows if row not in found.rows]
    assert left_out
    assert all("(" in row.name or row.name.startswith(("nn.Module", "<built-in")) for row in left_out)
    assert not any(".py(" in row.name for row in found.rows)
    assert [row for row in usual.rows if row in found.rows] == list(found.rows)
