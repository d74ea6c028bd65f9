"""64 ranks, one of them late, and clocks of known skew: the answer is what was planted."""

from __future__ import annotations

import pytest

from tests.analyzers.ranks.joining import joined
from tests.builders.ranks import Meeting, run
from traceanalyzer.analyzers.ranks import Ranks

LATE, EXTRA_US, NOISE_US, LAG_US = 17, 300, 20, 4
SKEW_NS = {rank: (rank * 7919 % 4001 - 2000) * 1000 for rank in range(64)}


def compute(rank: int, step: int) -> int:
    return 1000 + (13 * rank + 7 * step) % NOISE_US + EXTRA_US * (rank == LATE)


def lag(rank: int, step: int) -> int:
    """A collective does not end everywhere at the same time."""
    return (5 * rank + 3 * step) % LAG_US


@pytest.fixture(scope="module")
def found() -> Ranks:
    return joined(run(64, [Meeting(compute, lag=lag)], steps=6, skew_ns=SKEW_NS))


def test_the_straggler_is_named(found: Ranks) -> None:
    first = found.stragglers[0]
    assert (first.rank, first.steps, first.last) == (LATE, 6, 6)
    assert first.share == pytest.approx(1)
    assert first.caused_ns == pytest.approx(EXTRA_US * 1000, abs=(NOISE_US + LAG_US) * 1000)
    assert first.gap_ns == pytest.approx(first.caused_ns, abs=(NOISE_US + LAG_US) * 1000)
    assert [excess.part for excess in first.excess] == ["computation"]
    assert first.excess[0].ns == pytest.approx(EXTRA_US * 1000, abs=NOISE_US * 1000)


def test_the_skew_is_recovered(found: Ranks) -> None:
    for row in found.ranks[1:]:
        planted = SKEW_NS[row.rank] - SKEW_NS[0]
        assert row.skew is not None
        assert row.skew.reference == 0
        assert row.skew.collectives == 6
        assert row.skew.ns == pytest.approx(planted, abs=LAG_US * 1000)
        assert row.skew.low_ns <= planted + LAG_US * 1000
        assert row.skew.high_ns >= planted - LAG_US * 1000
        assert row.skew.low_ns <= row.skew.ns <= row.skew.high_ns
        assert row.skew.high_ns - row.skew.low_ns <= 2 * LAG_US * 1000
    assert found.ranks[0].skew is None


def test_everybody_is_there_and_matched(found: Ranks) -> None:
    assert (found.world_size, found.missing) == (64, ())
    matching = found.matching
    assert (matching.recorded, matching.matched, matching.by_sequence) == (384, 384, 384)
    assert (matching.unmatched, matching.contradicted, matching.not_mutual) == (0, 0, 0)
    assert found.counted_steps == 6


def test_synchronizing_and_transferring_are_told_apart(found: Ranks) -> None:
    (group,) = found.groups
    assert (group.collectives, group.ranks, group.group_size) == (6, 64, 64)
    assert group.transfer_ns == pytest.approx(200_000, abs=LAG_US * 1000)
    assert group.wait_ns == pytest.approx(EXTRA_US * 1000, abs=(NOISE_US + LAG_US) * 1000)
    assert group.algorithm_gb_per_s == pytest.approx(4_000_000 / group.transfer_ns)
    assert group.bus_gb_per_s == pytest.approx(group.algorithm_gb_per_s * 2 * 63 / 64)


def test_imbalance_is_that_of_the_work(found: Ranks) -> None:
    own = {row.rank: row.own_ns for row in found.ranks}
    assert max(own, key=lambda rank: own[rank] or 0) == LATE
    assert found.imbalance == pytest.approx(EXTRA_US / (1000 + 240), rel=0.15)
    steps = {row.mean_step_ns for row in found.ranks}
    assert max(steps) - min(steps) <= LAG_US * 1000, "step times do not show it: all wait"  # type: ignore[type-var,operator]
