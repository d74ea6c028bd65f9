"""Collectives that run on the CPU: their cost, and when they are exposed."""

from __future__ import annotations

import msgspec
import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.communication import HostCollectives
from traceanalyzer.analyzers.ranks import rank_facts
from traceanalyzer.pipeline import analyze
from traceanalyzer.structure import resources
from traceanalyzer.structure.context import Context

FIRST, SECOND = 7001, 7002


def reduce(trace: TraceBuilder, start: int, dur: int, tid: int, name: str = "gloo:all_reduce") -> None:
    trace.annotation(name, start, dur, tid=tid, args={"Input Dims": [[100]], "Input type": ["float"]})


def step_with_two() -> TraceBuilder:
    """A step of 1000 us: it computes until 300 and from 700 on, and two threads reduce from 200 to 600 and to 500."""
    trace = TraceBuilder(devices=(), distributed={"backend": "gloo", "rank": 0, "world_size": 2})
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 10, 290)
    trace.op("aten::add_", 700, 200)
    reduce(trace, 200, 400, FIRST)
    reduce(trace, 250, 250, SECOND)
    return trace


def found(trace: TraceBuilder) -> HostCollectives:
    return communication.on_host(Context(read_built(trace)))


def test_exposed_is_what_runs_beside_no_operator_of_another_thread() -> None:
    (row,) = found(step_with_two()).rows
    assert (row.operation, row.calls, row.total_ns, row.min_ns) == ("all_reduce", 2, 650_000, 250_000)
    assert row.exposed_ns == 300_000, "from 300 to 600, once"
    assert row.total_bytes == 2 * 400


def test_what_several_have_in_common_counts_for_the_first() -> None:
    facts = rank_facts.analyze(Context(read_built(step_with_two())))
    assert facts.collectives.exposed_ns == (300_000, 0)


def test_the_call_itself_hides_nothing() -> None:
    """An operator of c10d around a wait is part of the collective."""
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    trace.op("c10d::allreduce_", 100, 500)
    reduce(trace, 100, 500, FIRST)
    (row,) = found(trace).rows
    assert row.exposed_ns == 500_000


def test_what_the_sender_computes_meanwhile_hides_the_message() -> None:
    """Sends of gloo are ranges on the thread that calls them: from 100 to 900, with operators to 300 and from 700."""
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 10, 80)
    trace.op("c10d::send", 95, 5)
    trace.annotation("gloo:send", 100, 800)
    trace.op("aten::mm", 110, 190)
    trace.op("aten::mm", 700, 250)
    (row,) = found(trace).rows
    assert (row.operation, row.total_ns, row.exposed_ns) == ("send", 800_000, 410_000)


def test_operations_are_told_apart_and_unknown_sizes_stay_unknown() -> None:
    trace = step_with_two()
    trace.annotation("gloo:broadcast", 910, 50, tid=FIRST)
    assert [(row.operation, row.total_bytes) for row in found(trace).rows] == [("all_reduce", 800), ("broadcast", None)]


def test_what_is_outside_of_steps_does_not_count() -> None:
    trace = step_with_two()
    reduce(trace, 2000, 400, FIRST)
    assert found(trace).rows[0].calls == 2


@pytest.mark.parametrize("name", ["nccl:all_reduce", "aten::add"])
def test_says_why_there_is_nothing(name: str) -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.annotation(name, 10, 100)
    reason = communication.ANALYSES[1].missing(Context(read_built(trace)))
    assert reason is not None
    assert reason.id == "skip-no-host-collectives"


def test_is_saved_and_read() -> None:
    result = found(step_with_two())
    assert msgspec.json.decode(msgspec.json.encode(result), type=HostCollectives) == result


def test_without_a_device_collectives_are_a_resource_of_their_own() -> None:
    """Of 1000 us they run for 400, beside no operator for 300; the host keeps the rest."""
    step = resources.analyze(Context(read_built(step_with_two())))
    assert (step.gpu_ns, step.communication_ns, step.exposed_communication_ns) == (None, 400_000, 300_000)
    assert step.host_ns == 700_000


def test_without_collectives_communication_is_unknown() -> None:
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    step = resources.analyze(Context(read_built(trace)))
    assert (step.communication_ns, step.exposed_communication_ns, step.host_ns) == (None, None, 1_000_000)


def test_headline_and_resources_count_the_same() -> None:
    trace = step_with_two()
    reduce(trace, 610, 85, FIRST)
    reduce(trace, 905, 90, FIRST)
    reduce(trace, 20, 270, SECOND)  # hidden by an operator
    (headline,) = analyze(read_built(trace)).headlines
    # 300 to 600, 610 to 695, 905 to 995
    assert (headline.bound, headline.share) == ("host", 0.525)
    assert headline.resources.communication_ns == 475_000
    reduce(trace, 600, 100, SECOND)
    (headline,) = analyze(read_built(trace)).headlines
    assert (headline.bound, headline.share) == ("host", 0.51)
    reduce(trace, 0, 10, SECOND)
    reduce(trace, 900, 100, SECOND)
    (headline,) = analyze(read_built(trace)).headlines
    assert (headline.bound, headline.share) == ("communication", 0.51)
    assert headline.resources.host_ns == 490_000
    assert "0.51 of the 1.0 ms of the step are collectives and nothing else" in str(headline.message)
