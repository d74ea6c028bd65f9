"""Tests of the rule `dataparallel`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.dataparallel import (
    fires,
    fires_in_a_table,
    fires_on_frames,
    fires_on_two_gpus,
    training,
)

RULE = "dataparallel"


def test_one_gpu_pays_for_the_wrapper_itself() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    own = 300_000 + 10_000 + 5_000 + 1_000 + 1_000  # the walk, Scatter and what it calls, and their ends
    assert finding.saving.direct_ns_per_step == pytest.approx((own / 2, own))
    assert "one device" in finding.summary.text
    assert finding.confidence == "A"


def test_frames_alone_are_an_inference() -> None:
    (finding,) = findings(fires_on_frames(), RULE)
    assert finding.confidence == "B"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(301_000)


def test_several_gpus_pay_for_copying() -> None:
    (finding,) = findings(fires_on_two_gpus(), RULE)
    assert finding.summary.params["devices"] == 2
    assert "DistributedDataParallel" in finding.advice.text
    assert {place.name for place in finding.evidence[0].where} >= {"Broadcast", "Scatter", "Gather"}


def test_a_table_does_not_tell_how_many_gpus() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert "With one GPU" in finding.advice.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 5_000_000)


def test_hidden_behind_the_gpu_it_costs_nothing() -> None:
    (finding,) = findings(training("DataParallel.forward", walk=0), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] <= 20_000


def test_edge_calls_per_step() -> None:
    assert findings(fires(), RULE, {"calls_per_step": 1}) == []
    assert findings(fires(), RULE, {"calls_per_step": 0.99})
