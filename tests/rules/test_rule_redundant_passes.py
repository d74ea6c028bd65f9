"""Tests of the rule `redundant-passes`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires as inference
from tests.rules.situations.dataparallel import the_tutorial
from tests.rules.situations.redundant_passes import (
    fires,
    fires_on_a_repeated_pass,
    fires_on_the_host,
    fires_on_unused_outputs,
    fires_without_the_loss,
    in_a_table,
)

RULE = "redundant-passes"


def test_discarded_gradients_cost_forward_and_backward() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 4, "two in every other of four steps"
    assert finding.saving is not None
    whole = 4 * 2 * 3 * 100_000 / 4
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * whole, whole))
    assert finding.saving.resource == "gpu"


def test_without_a_gpu_they_cost_the_host() -> None:
    (finding,) = findings(fires_on_the_host(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.wall_share[1] > 0.2


def test_an_unused_output_names_its_module() -> None:
    (finding,) = findings(fires_on_unused_outputs(), RULE)
    assert finding.confidence == "C"
    assert finding.evidence[0].where[0].name == "nn.Module: Net_0"
    assert finding.evidence[0].where[0].shapes == "[[128,3,32,32],[8,3,3,3]]"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 600_000, 600_000))


def test_finds_what_the_tutorial_planted() -> None:
    assert findings(the_tutorial(), RULE)
    assert [finding.evidence[0].observed for finding in findings(the_tutorial(), "copies-materialized")] == [10]
    assert findings(the_tutorial(), "dataparallel")


def test_without_autograd_nobody_can_tell() -> None:
    assert "backward" in (skipped(inference(), RULE) or "")


def test_a_table_cannot_tell() -> None:
    assert "order of passes" in (skipped(in_a_table(), RULE) or "")


def test_edge_discarded_passes() -> None:
    assert findings(fires(), RULE, {"discarded_passes": 5}) == []
    assert findings(fires(), RULE, {"discarded_passes": 4})


def test_edge_unused_updates() -> None:
    assert findings(fires_on_unused_outputs(), RULE, {"unused_updates": 5}) == []
    assert findings(fires_on_unused_outputs(), RULE, {"unused_updates": 4})


def test_a_pass_that_runs_once_more_without_autograd() -> None:
    (finding,) = findings(fires_on_a_repeated_pass(), RULE)
    assert finding.confidence == "C"
    assert finding.evidence[0].observed == 6, "one beside each update"
    assert finding.evidence[0].where[0].name == "aten::conv2d"
    assert finding.summary.params["operators"] == 6
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 600_000, 1.5 * 600_000))


def test_a_repeated_pass_without_the_loss_is_known_by_most_of_its_operators() -> None:
    (finding,) = findings(fires_without_the_loss(), RULE)
    assert finding.summary.params["operators"] == 5
