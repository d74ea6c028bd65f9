"""graph-breaks."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.graph_breaks import broken, fires, trap_regions_in_a_table

RULE = "graph-breaks"


def test_the_host_time_between_the_parts_is_at_stake() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 2 * 100_000)), "two breaks of 100 us"
    assert finding.evidence[0].observed == 2


def test_without_log_and_stacks_regions_are_named() -> None:
    (finding,) = findings(fires(), RULE)
    assert [place.name for place in finding.evidence[0].where] == ["0/0 > 1/0", "1/0 > 2/0"]


def test_a_table_does_not_show_breaks() -> None:
    assert "does not show" in (skipped(trap_regions_in_a_table(), RULE) or "")


def test_edge_breaks() -> None:
    assert findings(fires(), RULE, {"breaks": 2.0})
    assert findings(fires(), RULE, {"breaks": 2.001}) == []


def test_edge_share() -> None:
    step = report(fires(), RULE).headlines[0].resources.step_ns
    share = 200_000 / step
    assert findings(broken(), RULE, {"share": share * (1 + 1e-9)}) == []
    assert findings(broken(), RULE, {"share": share * (1 - 1e-9)})
