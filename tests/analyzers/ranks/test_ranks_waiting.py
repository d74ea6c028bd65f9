"""Waiting, its causes, steps and missing ranks, with numbers worked out by hand."""

from __future__ import annotations

import pytest

from tests.analyzers.ranks.joining import by_rank, joined
from tests.builders.ranks import Meeting, run
from traceanalyzer.analyzers.ranks import waiting
from traceanalyzer.analyzers.ranks.model import RankRange

EXTRA = {0: 0, 1: 100, 2: 400, 3: 300}
"""Microseconds; rank 2 is last, then come 3, 1 and 0."""


def simple(rank: int, step: int) -> int:
    return 1000 + EXTRA[rank]


def test_waits_are_durations_beyond_the_shortest() -> None:
    found = joined(run(4, [Meeting(simple)]))
    rows = by_rank(found)
    assert {rank: row.wait_ns for rank, row in rows.items()} == {0: 400_000, 1: 300_000, 2: 0, 3: 100_000}
    assert {row.transfer_ns for row in found.ranks} == {200_000}
    assert {row.computation_ns for row in found.ranks} == {1_000_000, 1_100_000, 1_400_000, 1_300_000}
    assert found.wait_ns == found.exposed_wait_ns == 200_000
    assert found.transfer_ns == 200_000
    assert {rank: row.last for rank, row in rows.items()} == {0: 0, 1: 0, 2: 4, 3: 0}


def test_own_time_is_the_step_without_waiting() -> None:
    found = joined(run(4, [Meeting(simple)]))
    rows = by_rank(found)
    step = rows[2].mean_step_ns
    assert step is not None
    assert {rank: row.own_ns for rank, row in rows.items()} == {
        0: step - 400_000,
        1: step - 300_000,
        2: step,
        3: step - 100_000,
    }
    assert found.imbalance == pytest.approx(step / (step - 200_000) - 1)


def test_what_goes_away_with_the_late_rank() -> None:
    (first,) = joined(run(4, [Meeting(simple)])).stragglers
    assert first.caused_ns == 200_000, "400, 300 and 100 us of waiting over four ranks"
    assert first.gap_ns == 75_000, "three ranks wait 100 us less before they wait for rank 3"


def test_hidden_waiting_is_not_exposed() -> None:
    found = joined(run(4, [Meeting(simple, hidden=250)]))
    rows = by_rank(found)
    assert {rank: row.wait_ns for rank, row in rows.items()} == {0: 400_000, 1: 300_000, 2: 0, 3: 100_000}
    # of 600, 500 and 300 us in the collective 250 are hidden: 350, 250 and 50 are exposed
    assert {rank: row.exposed_wait_ns for rank, row in rows.items()} == {0: 350_000, 1: 250_000, 2: 0, 3: 50_000}
    assert found.stragglers[0].caused_ns == 162_500


def test_steps_name_who_was_waited_for() -> None:
    found = joined(run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == step % 3))], steps=3))
    assert [(step.name, step.waited_for, step.caused_ns) for step in found.steps] == [
        ("1", 1, 200_000),
        ("2", 2, 200_000),
        ("3", 0, 200_000),
    ]
    assert [step.ranks for step in found.steps] == [3, 3, 3]
    assert {late.rank: late.steps for late in found.stragglers} == {0: 1, 1: 1, 2: 1}
    assert [late.share for late in found.stragglers] == pytest.approx([1 / 3] * 3)


LAYERS = (
    Meeting(lambda rank, step: 1000 + 400 * (rank == 2), groups=[(0, 1, 2, 3), (4, 5, 6, 7)], name="tp"),
    Meeting(lambda rank, step: 50, groups=[(0, 4), (1, 5), (2, 6), (3, 7)], name="dp"),
)


def test_the_cause_is_passed_on_through_groups() -> None:
    """Ranks 0, 1 and 3 wait for 2 in their small group; 4 to 7 then wait in the large ones for 0 to 3."""
    found = joined(run(8, LAYERS))
    (only,) = found.stragglers
    assert only.rank == 2
    assert only.caused_ns == pytest.approx(7 * 400_000 / 8)
    assert by_rank(found)[0].last == 4, "it came last in its large group, but was only delayed itself"


def test_with_very_many_ranks_the_last_one_is_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_MOST_RANKS", 7)
    found = joined(run(8, LAYERS))
    assert {late.rank for late in found.stragglers} == {0, 1, 2, 3}
    assert sum(late.caused_ns for late in found.stragglers) == pytest.approx(7 * 400_000 / 8)


def test_a_rank_that_is_late_after_it_waited_is_a_cause_itself() -> None:
    """Rank 0 waits 400 us for rank 1, and is 300 us late on its own in the next meeting."""
    first = Meeting(lambda rank, step: 1000 + 400 * (rank == 1))
    second = Meeting(lambda rank, step: 500 + 300 * (rank == 0))
    found = joined(run(2, [first, second]))
    assert {late.rank: late.caused_ns for late in found.stragglers} == {1: 200_000, 0: 150_000}


def test_missing_ranks_are_named() -> None:
    traces = run(4, [Meeting(simple)], world_size=9)
    found = joined(traces, 9)
    assert found.missing == (RankRange(4, 8),)
    assert joined(traces[:1], 9).missing == (RankRange(1, 8),)


def test_groups_tell_the_size_of_the_world_where_the_header_does_not() -> None:
    traces = run(4, [Meeting(simple)])
    found = joined(traces[:3])
    assert (found.world_size, found.missing) == (4, (RankRange(3, 3),))


def test_without_any_word_on_it_the_world_is_unknown() -> None:
    traces = run(2, [])
    found = joined(traces)
    assert (found.world_size, found.missing) == (None, None)
    assert found.wait_ns is None
    assert found.stragglers == ()


def test_one_rank_waits_for_nobody() -> None:
    found = joined(run(1, [Meeting(lambda rank, step: 1000)]))
    assert found.wait_ns is None
    assert found.ranks[0].wait_ns is None
    assert found.imbalance is None
