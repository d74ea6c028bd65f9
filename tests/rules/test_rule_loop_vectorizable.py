"""Tests of the rule `loop-vectorizable`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.reading import plain
from tests.rules.judging import findings, report, skipped
from tests.rules.situations.loop_vectorizable import fires, iterating, on_a_cpu, trap_many_calls_in_a_table

RULE = "loop-vectorizable"


def test_all_turns_but_one_go_away() -> None:
    (finding,) = findings(fires(), RULE)
    (row,) = plain(report(fires(), RULE))["repeats"]["rows"]
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == pytest.approx(row["host_ns"] / 4 * 63 / 64)
    assert low == high / 2
    assert finding.saving.wall_ns_per_step[1] < high, "the GPU works while the loop begins"


def test_a_table_does_not_tell_who_calls() -> None:
    assert "does not show whether" in (skipped(trap_many_calls_in_a_table(), RULE) or "")


def test_edge_turns() -> None:
    assert findings(iterating(10), RULE)
    assert findings(iterating(9), RULE) == []
    assert findings(iterating(64), RULE, {"turns": 64})
    assert findings(iterating(64), RULE, {"turns": 65}) == []


def test_edge_host_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    share = finding.saving.direct_ns_per_step[1] / report(fires(), RULE).headlines[0].resources.step_ns
    assert findings(fires(), RULE, {"host_share": share * (1 + 1e-9)}) == []
    assert findings(fires(), RULE, {"host_share": share * (1 - 1e-9)})


def test_on_a_cpu_small_operators_cost_their_calls() -> None:
    (finding,) = findings(on_a_cpu(4), RULE)
    assert finding.saving is not None
    removed = 63 * 3 * 4_000
    assert finding.saving.direct_ns_per_step == pytest.approx((removed, 1.6 * removed))


def test_on_a_cpu_large_pieces_still_have_to_be_computed() -> None:
    (finding,) = findings(on_a_cpu(100), RULE)
    assert finding.saving is not None
    removed = 63 * 3 * 100_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * removed, removed))
