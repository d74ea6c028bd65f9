"""Tests of the rule `sync-device-wide`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped, table, varied
from tests.rules.situations.sync_device_wide import CALL, fires, fires_in_a_table, synchronizing

RULE = "sync-device-wide"


def test_the_idle_time_after_the_wait_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # the second kernel starts 0.9 us after the first as others do, at 3016.9 instead of 3332.5 us
    assert (low, high) == pytest.approx(varied(315_600))
    assert finding.evidence[0].where[0].name == CALL


def test_a_table_gives_at_most_the_waits() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 3_000_000)
    assert finding.evidence[0].observed == 1.0, "eleven calls in ten steps, less the profiler's own"


def test_a_table_without_steps_is_skipped() -> None:
    row = {"Name": CALL, "Self CPU": "9.000ms", "CPU total": "9.000ms", "Self CUDA": "0.000us", "# of Calls": 99}
    assert "how many steps" in (skipped(table([row], cpu="9.000ms", device="1.000ms"), RULE) or "")


def test_edge_calls_per_step() -> None:
    assert findings(synchronizing(middle=True, every=2), RULE), "in 3 of 6 steps"
    assert findings(synchronizing(middle=True, every=3), RULE) == []


def test_edge_gain_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"gain_share": share}) == []
    assert findings(fires(), RULE, {"gain_share": share - 1e-9})
