"""Tests of the rule `host-stalls`: numbers worked out by hand, and edges of thresholds.

The programs: operators that take microseconds, and now and then milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.builders.timeline import Host, Stream, finish
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

RULE = "host-stalls"
VIEW, EMPTY = "aten::view", "aten::empty"


def arranging(extra: Callable[[str, int, int], int]) -> TraceBuilder:
    """Six steps of ten turns: a view, an allocation and a product of 100 us; each takes the host about 10 us.

    Args:
        extra: From the operator, the step and the turn to microseconds for which it stands still.
    """

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(10):
            for name in (VIEW, EMPTY):
                with host.op(name, 5, 5):
                    host.work(extra(name, number, turn))
            compute(host, stream, 100)

    return looping(step)


def stalling(name: str, step: int, turn: int) -> int:
    """Once in each step, now in one operator, now in the other, for 10 ms."""
    return 10_000 if turn == 3 and name == (VIEW, EMPTY)[step % 2] else 0


def fires() -> TraceBuilder:
    return arranging(stalling)


def one_pass(name: str, stall: int, inside: int = 0) -> TraceBuilder:
    """Twelve operators that launch 10 us each, with views between, one of which takes long."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("model_inference"):
        for number in range(12):
            with host.op(VIEW, 5, 5):
                pass
            compute(host, stream, 10)
            if number == 10:
                with host.op(name, 5, 5):
                    host.work(stall)
                    if inside:
                        host.call("cudaMalloc", inside)
        host.wait(stream)
    return finish(trace)


def fires_on_a_single_view() -> TraceBuilder:
    """The only call of expand takes 10 ms, and nothing is recorded inside."""
    return one_pass("aten::expand", 10_000)


def trap_a_single_operator_that_makes_a_tensor() -> TraceBuilder:
    """The first allocation takes memory from the driver."""
    return one_pass("aten::empty", 10_000)


def trap_a_single_view_with_a_call_inside() -> TraceBuilder:
    """What takes long is recorded."""
    return one_pass("aten::expand", 0, inside=10_000)


def fires_on_ranks() -> tuple[TraceBuilder, ...]:
    """Ranks stall in turn for 20 ms, so that all wait for one of them in every step."""
    return run(4, [stalled(lambda rank, step, part: 20_000 * (rank == (step + part) % 4), part) for part in range(3)])


def stalled(late: Callable[[int, int, int], int], part: int) -> Meeting:
    return Meeting(lambda rank, step: 1000, stall=lambda rank, step: late(rank, step, part))


def quiet() -> TraceBuilder:
    """Nothing stands still."""
    return arranging(lambda name, step, turn: 0)


def trap_one_stall_of_an_operator_that_computes() -> TraceBuilder:
    """Both stall at the start; in the typical steps a product does once, which may have a reason of its own."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(10):
            for name in (VIEW, EMPTY):
                with host.op(name, 5, 5):
                    host.work(50_000 if number == 0 and turn == 3 else 0)
            with host.op("aten::mm", 5, 5):
                host.work(9000 if number == 2 and turn == 5 else 0)
            compute(host, stream, 1000)
        host.wait(stream)

    return looping(step)


def trap_one_operator() -> TraceBuilder:
    """Only allocations are slow at times: the program's allocator may have a reason."""
    return arranging(lambda name, step, turn: 10_000 if name == EMPTY and turn == 3 else 0)


def trap_first_use() -> TraceBuilder:
    """The first call of each operator loads something."""
    return arranging(lambda name, step, turn: 50_000 if step == turn == 0 else 0)


def trap_something_inside() -> TraceBuilder:
    """Both operators allocate at times, which takes 10 ms and is recorded."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(10):
            for name in (VIEW, EMPTY):
                with host.op(name, 5, 5):
                    if turn == 3:
                        host.call("cudaMalloc", 10_000)
            compute(host, stream, 100)

    return looping(step)


def large_and_small_inputs(of_last: int = 8000) -> TraceBuilder:
    """A product of a large matrix takes 8 ms in each step, among small ones; a view and an allocation stand still.

    In the last step the product takes another time, where asked.
    """
    trace, at = TraceBuilder(devices=()), 0
    for number in range(6):
        begin = at
        for call in range(12):
            length = 10 if call != 5 else of_last if number == 5 else 8000
            trace.op("aten::mul", at, length)
            trace.op(VIEW, at + length, 5000 if call == 7 else 4)
            trace.op(EMPTY, at + length + 5000, 5000 if call == 9 else 4)
            at += length + 10_100
        trace.step(number, begin, at - begin)
    return trace


def test_only_calls_unlike_those_on_the_same_inputs_stand_still() -> None:
    (found,) = findings(large_and_small_inputs(), RULE)
    assert found.saving is not None
    assert found.saving.direct_ns_per_step[1] == 10_000_000


def test_an_operator_that_takes_milliseconds_as_a_rule_is_not_quick() -> None:
    (found,) = findings(large_and_small_inputs(of_last=40_000), RULE)
    assert [place.name for place in found.evidence[0].where] == [EMPTY, VIEW]


def trap_always_as_long() -> TraceBuilder:
    """Every call takes milliseconds: that is what they cost."""
    return arranging(lambda name, step, turn: 4_000)


def trap_even_network() -> tuple[TraceBuilder, ...]:
    """All ranks communicate for long, and none stands still."""
    return run(4, [Meeting(lambda rank, step: 1000, transfer=20_000, stall=lambda rank, step: 0)])


def test_it_is_worth_the_time_of_the_stalls() -> None:
    (finding,) = findings(fires(), RULE)
    # four stalls of 10 ms in four steps, less the queue of the device when one begins
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert 7_500_000 < low < high <= 10_000_000
    assert "(stalls per step: 1)" in finding.summary.text
    (place,) = {entry.kind for entry in finding.where}
    assert place == "host"
    assert sum(entry.ns_per_step or 0 for entry in finding.where) == pytest.approx(10_010_000, rel=0.001)


def test_ranks_that_stall_in_turn_cost_what_the_replay_of_all_says() -> None:
    """In each of three meetings a step one rank stalls for 20 ms, and the others wait for it."""
    (finding,) = findings(fires_on_ranks(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(60_000_000, rel=0.05), "three meetings, each with one late rank"
    # each rank stalls in three of four steps; one of the twelve is the first call of its operator
    assert low == pytest.approx(20_010_000 * 11 / 16, rel=0.001)
    assert "On 3 of 4 ranks" in finding.summary.text, "of the fourth only two stalls are known"


def test_without_it_communication_is_not_blamed() -> None:
    rules = {finding.rule for finding in report(fires_on_ranks()).findings}
    assert "comm-straggler" not in rules, "they take turns"


def test_stalls_of_operators_that_call_themselves_are_told_in_full() -> None:
    """Each operator is dispatched twice: the inner call has its name, and it is where the thread stands still."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(10):
            for name in (VIEW, EMPTY):
                with host.op(name, 5, 5), host.op(name, 5, 5):
                    host.work(stalling(name, number, turn))
            compute(host, stream, 100)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(10_020_000, rel=0.001)
    assert sum(entry.ns_per_step or 0 for entry in finding.where) == pytest.approx(10_020_000, rel=0.001)
    assert ": 10 ms of a step" in finding.summary.text


def test_edge_stalls() -> None:
    assert findings(fires(), RULE, {"stalls": 4})
    assert findings(fires(), RULE, {"stalls": 5, "alone_share": 1}) == []


def test_a_single_stall_bounds_a_recording_of_little_work() -> None:
    (finding,) = findings(fires_on_a_single_view(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((8e6, 10e6), rel=0.01)
    assert "aten::expand" in finding.summary.text
    (headline,) = report(fires_on_a_single_view()).headlines
    assert headline.bound == "host"
    assert "12 kernels" in headline.text


def test_evidence_of_a_single_stall_shows_the_threshold_of_a_single_stall() -> None:
    (finding,) = findings(fires_on_a_single_view(), RULE, {"share": 0.99})
    assert finding.evidence[0].threshold == 0.2


def test_says_why_it_cannot_judge() -> None:
    assert "single calls" in (skipped(fires_in_a_table(), RULE) or "")
    assert "no operator that is quick" in (skipped(quiet(), RULE) or "")


def test_what_the_program_can_change_comes_before_the_machine() -> None:
    """Stalls cost more than waits for values, which somebody who reads the report can remove."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(10):
            for name in (VIEW, EMPTY):
                with host.op(name, 5, 5):
                    host.work(stalling(name, number, turn))
            compute(host, stream, 400)
            with host.op("aten::item", 2, 2), host.op("aten::_local_scalar_dense", 1, 1):
                host.wait(stream)

    found = {each.rule: each.saving for each in report(looping(step)).findings}
    firm = [rule for rule, saving in found.items() if saving is not None and saving.wall_ns_per_step[0] > 0]
    assert firm == ["sync-item-frequent", "mixed-precision-unused", RULE]
    assert found[RULE].wall_ns_per_step[0] > found["sync-item-frequent"].wall_ns_per_step[1]
