"""What each rank does at each moment of a step on one clock, with times worked out by hand."""

from __future__ import annotations

import pytest

from tests.analyzers.ranks.joining import joined
from tests.builders.ranks import Meeting, run
from traceanalyzer.analyzers.ranks.model import StripPart, TypicalStrips
from traceanalyzer.analyzers.ranks.strips import MOST_RANKS

EXTRA = {0: 0, 1: 100, 2: 400, 3: 300}


def simple(rank: int, step: int) -> int:
    return 1000 + EXTRA.get(rank, 0)


def time_of(parts: tuple[StripPart, ...], kind: str) -> float:
    return sum(part.duration_ns for part in parts if part.kind == kind) / 1000


def strips(*meetings: Meeting, ranks: int = 4, **options: object) -> TypicalStrips:
    found = joined(run(ranks, meetings, **options)).typical_step  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize("skew_ns", [{}, {1: 7_000_000, 3: -3_000_000}], ids=["one clock", "others"])
@pytest.mark.parametrize("clock", [True, False])
def test_lanes_of_four_ranks(skew_ns: dict[int, int], clock: bool) -> None:
    found = strips(Meeting(simple), skew_ns=skew_ns, clock=clock)
    assert [strip.rank for strip in found.strips] == [0, 1, 2, 3]
    near = pytest.approx
    pixel = found.duration_ns / 1000 / 600
    for strip in found.strips:
        extra = EXTRA[strip.rank]
        assert time_of(strip.work, "compute") == near(1000 + extra, abs=2 * pixel)
        assert time_of(strip.communication, "wait") == near(400 - extra, abs=2 * pixel)
        assert time_of(strip.communication, "transfer") == near(200, abs=2 * pixel)
        last = strip.communication[-1]
        assert (last.start_ns + last.duration_ns) / 1000 == near(
            (found.strips[0].communication[-1].start_ns + found.strips[0].communication[-1].duration_ns) / 1000,
            abs=3 * pixel,
        ), "they end together, by the common clock"


def test_work_under_a_collective_is_in_its_own_lane() -> None:
    found = strips(Meeting(simple, hidden=250))
    first = found.strips[0]
    assert time_of(first.work, "compute") == pytest.approx(1250, abs=8)
    assert time_of(first.work, "idle") < time_of(first.communication, "transfer")


def test_many_ranks_are_counted_and_late_ones_are_shown() -> None:
    found = strips(Meeting(lambda rank, step: 1500 if rank == 19 else 1000), ranks=20, steps=2)
    assert len(found.strips) == MOST_RANKS
    assert found.more_ranks == 4
    assert found.strips[-1].rank == 19


def test_the_cost_of_each_rank_in_each_step() -> None:
    found = joined(run(4, [Meeting(simple)]))
    assert [step.costs_ns for step in found.steps] == [(0, 0, 200_000, 0)] * 4
    late_once = joined(run(2, [Meeting(lambda rank, step: 1000 + 500 * (step == 2 and rank == 1))]))
    assert [step.costs_ns[1] for step in late_once.steps].count(250_000) == 1


def test_one_rank_has_none() -> None:
    assert joined(run(1, [Meeting(simple)])).typical_step is None
