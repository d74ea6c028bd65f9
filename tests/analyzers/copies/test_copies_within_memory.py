"""Copies within one memory, worked out by hand."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.reading import read, read_built
from tests.rules.copies.test_copies_materialized import COPY, cloning, copying
from traceanalyzer.analyzers.copies import within_memory
from traceanalyzer.analyzers.copies.within_memory import Conversions
from traceanalyzer.pipeline import analyze as report_on
from traceanalyzer.sections.copies import build
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> Conversions:
    return within_memory.analyze(Context(read_built(trace)))


def test_the_outermost_operator_that_only_copies_asked() -> None:
    (row,) = analyzed(copying("aten::matmul", "aten::reshape", "aten::clone")).rows
    assert (row.operator, row.caller) == ("aten::reshape", "aten::matmul")
    assert (row.calls, row.device_ns) == (12, 12 * 100 * US)
    assert (row.to_type, row.from_type) == ("c10::BFloat16", "c10::BFloat16")
    assert row.on_device
    assert not row.is_backward


def test_modules_of_one_class_are_one_caller() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        for layer in range(3):
            module = host.frame(f"nn.Module: Attention_{layer}", module=layer)
            with module, host.op("aten::contiguous"), host.op("aten::copy_", shapes=[[8, 8], [8, 8], []]):
                host.launch(Work(COPY, 10), stream)
        host.wait(stream)
    (row,) = analyzed(finish(trace)).rows
    assert (row.caller, row.calls) == ("Attention", 3)


def test_backward_is_told_apart() -> None:
    name = "autograd::engine::evaluate_function: PermuteBackward0"
    (row,) = analyzed(copying(name, "aten::contiguous")).rows
    assert row.is_backward
    assert row.caller == name


def test_runs_are_calls_with_nothing_between() -> None:
    assert [row.longest_run for row in analyzed(cloning(7, gpu=True)).rows] == [7]
    assert [row.longest_run for row in analyzed(cloning(7, gpu=True, between=True)).rows] == [1]


def test_copies_without_a_launch_are_in_the_memory_of_the_host() -> None:
    (row,) = analyzed(cloning(2, gpu=False)).rows
    assert not row.on_device
    assert (row.calls, row.device_ns) == (6, 0)
    assert row.host_ns == 6 * (2 + 3 + 200 + 1 + 1) * US


def test_the_rest_is_counted() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for size in range(1, 71):
        with host.op("aten::contiguous"), host.op("aten::copy_", shapes=[[size], [size], []]):
            host.launch(Work(COPY, 100 + size), stream)
    found = analyzed(finish(trace))
    assert (len(found.rows), found.hidden_rows) == (60, 10)
    assert found.rows[0].input_shapes == "[[70],[70],[]]", "the one with most time first"


def test_a_trace_without_copies_has_none() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    assert analyzed(trace) == Conversions((), 0)


def test_copies_of_graphs_and_compiled_code_are_counted_and_not_explained() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.op("aten::copy_", 10, 30)
    trace.memcpy("DtoD", 1 << 20, 60, 20, at=20)
    trace.annotation("CompiledFunction", 200, 300)
    for number in range(3):
        trace.memcpy("DtoD", 1 << 20, 300 + 30 * number, 20, at=210 + 20 * number)
    found = analyzed(trace)
    assert (found.device_copies, found.device_copies_here) == (4, 1)
    shown = [section for section in build(report_on(read_built(trace)), 10) if section.id == "copies"]
    assert "made 1 of 4 copies" in shown[0].messages[0].text


@pytest.mark.parametrize("types", ["17", "true", '"float"', '{"a": 1}', "[[], {}, 3]", "[]"])
def test_types_that_are_no_list_of_texts_are_unknown(types: str) -> None:
    written = b'["c10::BFloat16", "c10::BFloat16", "Scalar"]'
    data = copying("aten::matmul").to_bytes()
    assert written in data
    (row,) = within_memory.analyze(Context(read(data.replace(written, types.encode())))).rows
    assert (row.to_type, row.from_type, row.calls) == (None, None, 12)
