"""How people see launches."""

from __future__ import annotations

from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import launches
from traceanalyzer.report.section import Section
from traceanalyzer.sections.launches import build
from traceanalyzer.structure.context import Context

US = 1000


def sections(trace: TraceBuilder, top: int = 5) -> list[Section]:
    return list(build(report_with("launches", launches.analyze(Context(read_built(trace)))), top))


def test_delays_and_queues_are_shown() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 15, 10, at=0, call_dur=5)
    trace.launch_kernel("b", 30, 4, at=20, call_dur=8)
    delays, *_, queues = sections(trace)
    assert delays.is_detail
    assert queues.is_detail
    assert delays.messages == ()
    assert {fact.label.id: fact.value for fact in delays.facts} == {
        "launches-kernels": 2,
        "launches-call": 6.5 * US,
        "launches-delay-median": 6.0 * US,
        "launches-delay-p95": 10 * US,
        "launches-delay-max": 10 * US,
        "launches-short": 0.5,
        "launches-short-share": 4 / 14,
    }
    assert delays.tables[0].rows == (
        ("a", 1, 10 * US, 10.0 * US, 10 * US, 10 * US, 0),
        ("b", 1, 2 * US, 2.0 * US, 2 * US, 2 * US, 1),
    )
    assert queues.tables[0].rows == ((0, 7, 2, 25 / 30, 1),)


def test_what_is_left_out_and_what_was_blocked_is_said() -> None:
    trace = TraceBuilder()
    trace.graph_launch(0, 20, [("a", 60, 10, {}), ("b", 75, 30, {})])
    trace.kernel("c", 200, 60)
    for number in range(300):
        call = 1 if number < 299 else 50
        trace.launch_kernel("k", 10_000 + 10 * number, 0, at=300 + 2 * number, call_dur=call)
    delays, *_ = sections(trace)
    assert [message.text for message in delays.messages] == [
        (
            "1 graph launch started 2 kernels, 40 % of kernel time; the figures about single launches do not "
            "include them."
        ),
        "1 kernel has no launch in the trace and is left out.",
        "1 call waited 49 us because the queue was full (294 launches or more).",
    ]


def test_a_trace_of_graphs_alone_has_queues_but_no_delays() -> None:
    trace = TraceBuilder()
    trace.graph_launch(0, 20, [("a", 60, 10, {})])
    delays, *_, queues = sections(trace)
    assert delays.tables == ()
    assert [fact.value for fact in delays.facts] == [0]
    assert len(queues.tables[0].rows) == 1


def test_no_more_rows_than_asked_for_are_shown() -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.launch_kernel(f"k{number}", 20 * number + 10, 5, at=20 * number, stream=number)
    assert [(len(s.tables[0].rows), s.tables[0].total_rows) for s in sections(trace, 3)] == [(3, 4), (3, 4)]


def test_without_the_analysis_there_is_no_section() -> None:
    assert list(build(report_with("launches", None), 5)) == []
