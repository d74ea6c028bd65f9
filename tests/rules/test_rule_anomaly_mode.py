"""Tests of the rule `anomaly-mode`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.anomaly_mode import fires, look_for_nan, nothing, training
from tests.rules.situations.autograd_in_inference import in_a_table

RULE = "anomaly-mode"


def test_checks_and_stacks_go_away() -> None:
    (finding,) = findings(training(look_for_nan, stack=20), RULE)
    assert finding.saving is not None
    # Ten checks of 13 us until the end of the evaluation: 4 + 5 + 3, and 1 us of the evaluation itself. Ten stacks: the
    # operators of the forward pass begin their work after 22 us, those of autograd (threshold_backward) after 2 us.
    low, high = finding.saving.direct_ns_per_step
    assert low == 10 * 13_000 + 10 * 20_000
    assert high == 1.5 * low
    assert "200.0 us are for stacks" in finding.summary.text
    assert finding.severity == "critical"
    assert "GPU" not in finding.summary.text + finding.advice.text + finding.not_when.text


def test_the_saving_is_no_longer_than_the_step() -> None:
    found = training(look_for_nan, stack=10_000)
    (finding,) = findings(found, RULE)
    step = report(found, RULE).headlines[0].resources.step_ns
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(step)


def test_without_stacks_the_checks_remain() -> None:
    (finding,) = findings(training(look_for_nan), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == 10 * 13_000


def test_a_table_does_not_tell() -> None:
    assert "does not show" in (skipped(in_a_table(), RULE) or "")


def test_edge_checked_share() -> None:
    eight = training(lambda host, layer: look_for_nan(host) if layer < 8 else nothing(host, layer))
    assert findings(eight, RULE), "8 of 10"
    assert findings(eight, RULE, {"checked_share": 0.81}) == []


def test_edge_functions() -> None:
    assert findings(fires(), RULE, {"functions": 40}), "10 in each of 4 steps"
    assert findings(fires(), RULE, {"functions": 41}) == []
