"""Tests of the rule `dataloader-workers-restarted`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from math import hypot, sqrt

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_workers_restarted import fires, fires_by_frames, fires_once, nothing_known

RULE = "dataloader-workers-restarted"


def test_what_changes_of_epochs_cost() -> None:
    """Two steps of 42 ms among six, the others 5 ms; surely the waits, less two of 1 ms each: 16 of 18 ms.

    Both changes take equally long; their number is off by a change over the root of twelve, of two 14.4 %, 1.28 times.
    """
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    least, most = 2 * 16e6 / 6, 2 * 37e6 / 6
    middle = (least + most) / 2
    apart = hypot(middle - least, 1.28 * middle / 2 / sqrt(12))
    assert finding.saving.direct_ns_per_step == pytest.approx((middle - apart, middle + apart), rel=0.001)
    assert finding.summary.params["turns"] == 2
    assert finding.summary.params["each"] == pytest.approx(37e6, rel=0.001)
    assert finding.stage == "preview"


def test_one_change_does_not_tell_how_often_they_come() -> None:
    (finding,) = findings(fires_once(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0
    assert finding.severity == "medium"


def test_frames_tell_it_as_well() -> None:
    assert findings(fires_by_frames(), RULE)


def test_without_a_sign_it_is_not_judged() -> None:
    assert "neither a capture nor" in (skipped(nothing_known(), RULE) or "")


def test_waits_between_epochs_are_no_business_of_the_loader_being_slow() -> None:
    assert findings(fires(), "dataloader-bound") == []


def test_edge_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"share": share}) == []
    assert findings(fires(), RULE, {"share": share - 1e-9})
