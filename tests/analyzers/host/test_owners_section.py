"""Owners as people see them."""

from __future__ import annotations

from tests.analyzers.host.reading_owners import owners_of
from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.rules.judging import report
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.section import Section
from traceanalyzer.sections import host as section


def section_of(trace: TraceBuilder, top: int = 100) -> Section:
    (shown,) = section.build(report_with("host_owners", owners_of(trace)), top)
    return shown


def cell(value: object) -> object:
    if isinstance(value, Text):
        return value.english
    return ENGLISH.say(value) if isinstance(value, Message) else value


def rows_of(shown: Section) -> list[dict[str, object]]:
    (table,) = shown.tables
    heads = [cell(column.title) for column in table.columns]
    return [dict(zip(map(str, heads), map(cell, row), strict=True)) for row in table.rows]


def program() -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.python_function("data.py(7): preprocess", 0, 40)
    trace.module("Net_0", 40, 50)
    trace.python_function("net.py(3): forward", 41, 48)
    trace.op("aten::linear", 42, 40)
    trace.launch_kernel("k", 60, 35, at=50)
    return trace


def test_a_row_tells_owner_place_time_idle_and_calls() -> None:
    shown = section_of(program())
    first, second, last = rows_of(shown)
    assert (first["Owner"], first["Place"], first["Mostly"]) == ("Net", "module, net.py:3", "aten::linear")
    assert (first["CPU/step"], first["Share"], first["GPU idle"]) == (50_000, 0.5, 20_000)
    assert (first["Launched"], first["Calls/step"]) == (35_000, 1)
    assert (second["Owner"], second["Place"]) == ("preprocess: input preprocessing", "data.py:7")
    assert (last["Owner"], last["CPU/step"], last["GPU idle"]) == ("(nothing recorded)", 10_000, 5_000)
    assert not shown.is_detail
    assert [(fact.label.english, fact.value) for fact in shown.facts] == [("input preprocessing", 40_000)]


def test_a_single_long_call_is_told_with_what_it_waits_for() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation("evaluate", 0, 90)
    trace.launch_kernel("busy", 10, 60, at=5, call_dur=2)
    trace.op("aten::item", 18, 60)
    trace.memcpy("DtoH", 4, 72, 2, at=20, call_dur=55)
    shown = section_of(trace)
    (message,) = shown.messages
    assert ENGLISH.say(message) == (
        "One call of aten::item in evaluate takes 60 us, 60 % of a step; 55 us of it cudaMemcpyAsync waits until "
        "busy has ended."
    )


def test_a_short_wait_in_a_long_call_is_not_told() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation("evaluate", 10, 80)
    trace.op("aten::item", 15, 60)
    trace.memcpy("DtoH", 4, 22, 2, at=20, call_dur=5)
    said = [ENGLISH.say(message) for message in section_of(trace).messages]
    assert said[0] == "One call of aten::item in evaluate takes 60 us, 60 % of a step."


def test_a_call_that_is_longer_than_a_step_is_no_share_of_it() -> None:
    """Every other step has one of 240 us; the mean of all is 175 us."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(8):
        length = 250 if number % 2 else 100
        trace.step(number, at, length)
        trace.op("aten::div", at, length - 10)
        at += length
    said = [ENGLISH.say(message) for message in section_of(trace).messages]
    assert said[0] == "One call of aten::div takes 240 us, longer than a typical step."


def test_a_call_in_a_trace_without_steps_is_a_share_of_the_trace() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 60)
    trace.op("aten::add", 60, 40)
    (shown,) = section.build(report(trace), 10)
    assert ENGLISH.say(shown.messages[0]) == "One call of aten::mm takes 60 us, 60 % of the trace."


def test_a_bare_wait_at_the_end_of_a_measurement_is_not_told_as_a_long_call() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.launch_kernel("k", 8, 82, at=2)
    trace.launch("cudaDeviceSynchronize", 10, 82)
    assert not section_of(trace).messages


def test_where_the_device_has_work_silence_of_the_host_is_not_told() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 10)
    trace.launch_kernel("long", 8, 992, at=2)
    shown = section_of(trace)
    assert not shown.messages
    assert shown.is_detail


def test_where_the_device_waits_for_a_silent_host_that_is_told() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.launch_kernel("short", 10, 10, at=5)
    trace.op("aten::mm", 90, 5)
    shown = section_of(trace)
    assert [message.id for message in shown.messages] == ["owners-silent"]
    assert shown.messages[0].params["share"] == 0.8  # 0 to 5, 20 to 90 and 95 to 100 of 100


def test_only_as_many_rows_as_asked_for_and_what_has_no_owner() -> None:
    shown = section_of(program(), top=1)
    assert [row["Owner"] for row in rows_of(shown)] == ["Net", "(nothing recorded)"]
    assert shown.tables[0].total_rows == 3
