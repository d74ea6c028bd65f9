"""What a report keeps of a rank: compact, and enough to join ranks without their traces."""

from __future__ import annotations

import msgspec
import pytest

from tests.analyzers.ranks.joining import members
from tests.builders import TraceBuilder
from tests.builders.ranks import BASE_NS, Meeting, run
from tests.reading import assert_reads_back, read_built
from traceanalyzer.analyzers import ranks
from traceanalyzer.analyzers.ranks import rank_facts
from traceanalyzer.analyzers.ranks.member import of_report
from traceanalyzer.analyzers.ranks.rank_facts import ProcessGroup, RankFacts
from traceanalyzer.multirank import join
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.structure.context import Context


def facts(trace: TraceBuilder) -> RankFacts:
    return rank_facts.analyze(Context(read_built(trace)))


def test_columns_of_a_rank() -> None:
    found = facts(run(2, [Meeting(lambda rank, step: 1000 + 100 * rank)], steps=2, skew_ns={0: 3})[0])
    assert found.clock_ns == BASE_NS + 3 + 1_000_000, "the first event is 1 ms after the origin"
    assert found.groups == (ProcessGroup("0", "[0, 1]", 2),)
    (kind,) = found.kinds
    assert (kind.operation, kind.group, kind.message_bytes, kind.is_mutual) == ("all_reduce", 0, 4_000_000, True)
    columns = found.collectives
    assert columns.kind == (0, 0)
    assert columns.sequence == (1, 2)
    assert columns.step == (0, 1)
    assert columns.start_ns[0] == 1_020_000
    assert columns.duration_ns == columns.exposed_ns == (300_000, 300_000)
    assert found.steps.name == ("1", "2")
    assert found.steps.computation_ns == (1_000_000, 1_000_000)
    assert found.left_out == 0
    assert not found.is_on_host


def test_a_number_that_only_the_host_event_has() -> None:
    trace = run(1, [Meeting(lambda rank, step: 1000)], steps=1)[0]
    for event in trace.events:
        if "ncclDevKernel" in str(event["name"]):
            event["args"] = {k: v for k, v in event["args"].items() if k != "Seq"}  # type: ignore[attr-defined]
    assert facts(trace).collectives.sequence == (1,)


def test_before_there_was_a_base_the_clock_counts_from_1970() -> None:
    trace = TraceBuilder(base_ns=None, origin=1_682_725_898_000_000, distributed={"rank": 0, "world_size": 2})
    trace.step(1, 5, 100)
    trace.launch_kernel("k", 20, 50, at=10)
    assert facts(trace).clock_ns == 1_682_725_898_000_005_000
    early = TraceBuilder(base_ns=None, distributed={"rank": 0, "world_size": 2})
    early.step(1, 5, 100)
    assert facts(early).clock_ns is None


def test_modules_around_collectives() -> None:
    """Rows of the frame table must not be taken for rows of the host table."""
    trace = run(1, [Meeting(lambda rank, step: 1000)], steps=1)[0]
    for number in range(400):
        trace.module(f"Linear_{number}", 1000 + number, 2, module=number)
    trace.module("Net", 999, 1200, module=900)
    assert facts(trace).collectives.sequence == (1,)


def test_nothing_to_compare() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    reason = rank_facts.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert reason.id == "skip-no-ranks"


def test_the_beginning_of_a_step_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_facts, "MOST", 2)
    found = facts(run(1, [Meeting(lambda rank, step: 100)] * 5, steps=1)[0])
    assert found.collectives.sequence == (1, 2)
    assert found.left_out == 3


@pytest.mark.parametrize("sequence", [True, False])
def test_saved_reports_say_the_same_as_traces(sequence: bool) -> None:
    traces = run(3, [Meeting(lambda rank, step: 1000 + 100 * rank)], skew_ns={1: 50_000}, sequence=sequence)
    saved = [msgspec.json.decode(msgspec.json.encode(analyze(read_built(t))), type=Report) for t in traces]
    loaded = {rank: member for rank, report in enumerate(saved) if (member := of_report(report)) is not None}
    direct = members(traces)
    assert ranks.join(loaded) == ranks.join(direct)
    assert join(loaded, "run") == join(direct, "run")


def test_the_report_of_a_run_is_the_same_after_json() -> None:
    report = join(members(run(3, [Meeting(lambda rank, step: 1000 + 100 * rank)])), "run")
    data = msgspec.json.encode(report)
    assert_reads_back(data, report)
    assert report.source.format == "kineto-ranks"
    assert report.trace is not None
    assert (report.trace.rank, report.trace.world_size) == (None, 3)
