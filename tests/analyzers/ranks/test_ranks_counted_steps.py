"""Ranks whose steps the profiler did not mark: they are compared by the steps of the program."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.analyzers.ranks.joining import by_rank, members
from tests.builders import TraceBuilder
from tests.builders.trace import distributed_info
from traceanalyzer.analyzers.ranks import Ranks
from traceanalyzer.multirank import join
from traceanalyzer.report.model import Report

STEP = 10_000
"""Microseconds from one optimizer step to the next."""


def rank_of_two(rank: int, *, first: int = 0, steps: int = 6) -> TraceBuilder:
    """A rank on the CPU: an optimizer step of 500 us, 1000 us of operators (rank 1: 6000), a gloo all_reduce.

    Both ranks leave the all_reduce 9000 us after the step began, so that rank 0 waits 5000 us of each step.

    Args:
        rank: 0 or 1.
        first: The first step of the run that is recorded.
        steps: Number of optimizer steps that are recorded.
    """
    trace = TraceBuilder(devices=(), distributed=distributed_info(rank, 2))
    work = 6000 if rank else 1000
    for number in range(first, first + steps):
        start = 1000 + number * STEP
        trace.annotation("Optimizer.step#SGD.step", start, 500)
        trace.op("aten::mm", start + 1000, work)
        trace.annotation("gloo:all_reduce", start + 1000 + work, 8000 - work)
        trace.op("aten::add", start + 9000, 900)
    return trace


def ranks_of(report: Report) -> Ranks:
    found = report.result("ranks", Ranks)
    assert found is not None
    return found


def test_steps_are_those_of_the_program() -> None:
    report = join(members([rank_of_two(0), rank_of_two(1)]), "run")
    found = ranks_of(report)
    # Five steps of 10 ms, and the last until its last operator ends: 9.9 ms.
    assert found.mean_step_ns == pytest.approx((5 * 10_000_000 + 9_900_000) / 6)
    assert len(found.steps) == 6
    assert found.wait_ns == 2_500_000, "5 ms on rank 0, none on rank 1"
    assert by_rank(found)[0].wait_ns == 5_000_000
    (late,) = found.stragglers[:1]
    assert (late.rank, late.steps) == (1, 6)
    assert "wait for rank 1, each for 5.000 ms of each step of 9.983 ms" in report.headlines[0].message.text


def test_a_rank_that_was_cut_off_is_compared_by_its_first_steps() -> None:
    own = members([rank_of_two(0), rank_of_two(1, steps=4)])
    own[1] = replace(own[1], is_damaged=True)
    found = ranks_of(join(own, "run"))
    assert found.matching.matched == 8
    assert by_rank(found)[0].wait_ns == pytest.approx(4 * 5_000_000 / 6), "over all steps of the rank"


def test_ranks_that_count_other_steps_are_not_matched_by_order() -> None:
    # Rank 1 began to record a step later: its step 0 is step 1 of rank 0.
    found = ranks_of(join(members([rank_of_two(0), rank_of_two(1, first=1, steps=5)]), "run"))
    assert found.matching.matched == 0
    assert found.wait_ns is None
    assert by_rank(found)[1].skew is None
