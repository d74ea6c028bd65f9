"""Tests of the rule `graph-breaks`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.timeline import Host
from tests.rules.judging import findings, report, skipped
from tests.rules.situations.graph_breaks import broken, fires, trap_regions_in_a_table
from tests.rules.situations.host_waits_or_logs import on_cpu

RULE = "graph-breaks"


def test_the_host_time_between_the_parts_is_at_stake() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    # Two breaks of 100 us, and 5 us at either end of three regions, of which one remains.
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 2 * 100_000 + 2 / 3 * 30_000))
    assert finding.evidence[0].observed == 2


def test_on_a_cpu_starting_the_regions_behind_breaks_goes_away() -> None:
    def body(host: Host, number: int) -> None:
        with host.op("Torch-Compiled Region: 0/0", 5, 5):
            host.leaf("aten::mm", 200)
            host.work(100)
            with host.op("Torch-Compiled Region: 1/0", 7, 5):
                host.leaf("aten::mm", 200)

    (finding,) = findings(on_cpu(body), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((12_000, 1.5 * (100_000 + 22_000 / 2)))


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
