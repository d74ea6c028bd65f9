"""Tests of the rule `h2d-blocking`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped, varied
from tests.rules.situations.h2d_blocking import copying, fires, fires_in_a_table, printed
from tests.rules.situations.h2d_pageable import trap_rocm_does_not_say

RULE = "h2d-blocking"


def test_a_wait_is_worth_the_idle_time_after_it() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # the kernel follows the copy: at 1019.0 instead of 1438.5 us, when it had been launched; copies are launched 11 us
    # before they start and kernels 9, so that a model which knows only the mean is 1 us off
    assert (low, high) == pytest.approx(varied(419_500, 420_500, point=419_500))
    assert finding.saving.point_ns_per_step == 419_500
    assert finding.saving.basis.id == "waits-replayed"


def test_a_wait_is_worth_no_more_than_it_takes() -> None:
    (finding,) = findings(copying(work=5000), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(1_006_500)  # the gap is 5 ms, the wait 1 ms


def test_a_table_gives_at_most_the_waits() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 4_000_000)


def test_behind_a_slow_loader_it_is_latent() -> None:
    (finding,) = findings(printed(20, 20, loader="200.000ms"), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 0)
    assert finding.saving.direct_ns_per_step == (0, 4_000_000)
    assert finding.latent
    assert finding.blocked_by == "loader"


def test_rocm_is_skipped_with_the_reason() -> None:
    assert "pageable or pinned" in (skipped(trap_rocm_does_not_say(), RULE) or "")


def test_edge_gain_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"gain_share": share}) == []
    assert findings(fires(), RULE, {"gain_share": share - 1e-9})


def test_edge_waits_per_copy() -> None:
    assert findings(printed(20, 18), RULE) == []
    assert findings(printed(20, 19), RULE)
    assert findings(printed(19, 21), RULE)
    assert findings(printed(18, 20), RULE) == []
