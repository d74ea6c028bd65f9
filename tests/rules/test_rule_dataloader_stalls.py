"""Tests of the rule `dataloader-stalls`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.dataloader_stalls import (
    fires,
    fires_at_the_start_of_an_epoch,
    trap_handful_of_steps,
)

RULE = "dataloader-stalls"


def test_what_is_beyond_the_median_is_divided_by_the_steps() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx(
        (0, 4 * 3_900_000 / 20), rel=1e-3
    )  # 4 of 20 are 3.9 ms late
    assert finding.evidence[0].observed == 40
    assert finding.evidence[0].where[0].value == 4_000_000


def test_a_late_first_batch_is_told_as_such() -> None:
    (finding,) = findings(fires_at_the_start_of_an_epoch(), RULE)
    assert (finding.saving, finding.severity) == (None, "low"), "a typical step has no first batch"
    assert [e.observed for e in finding.evidence] == [200]


def test_a_handful_is_not_judged() -> None:
    assert skipped(trap_handful_of_steps(), RULE) == "only 4 waits for batches were recorded: record 10 or more"
    assert "no timeline" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 20})
    assert findings(fires(), RULE, {"calls": 21}) == []


def test_edge_p95_medians() -> None:
    assert findings(fires(), RULE, {"p95_medians": 40}) == []
    assert findings(fires(), RULE, {"p95_medians": 39.9})


def test_edge_first_medians() -> None:
    assert findings(fires_at_the_start_of_an_epoch(), RULE, {"first_medians": 200}) == []
    assert findings(fires_at_the_start_of_an_epoch(), RULE, {"first_medians": 199.9})


def test_edge_gain_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    share = finding.saving.direct_ns_per_step[1] / report(fires(), RULE).headlines[0].resources.step_ns
    assert findings(fires(), RULE, {"gain_share": share - 1e-6})
    assert findings(fires(), RULE, {"gain_share": share + 1e-6}) == []
