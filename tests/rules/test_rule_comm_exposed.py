"""Tests of the rule `comm-exposed`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.comm_exposed import ddp, fires, trap_marks_on_the_host
from tests.rules.situations.dataloader_bound import fires_in_a_table

RULE = "comm-exposed"


def test_it_is_worth_what_the_product_could_hide() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((0, 2_000_000), rel=0.01)
    assert "late rank" in finding.saving.basis.text, "why the lower end is 0"


def test_more_communication_than_computation_cannot_all_be_hidden() -> None:
    (finding,) = findings(ddp(overlap=0, comm=5000, compute=1000), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(1_000_000, rel=0.01)


def test_edge_exposed_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"exposed_share": share})
    assert findings(fires(), RULE, {"exposed_share": share + 1e-9}) == []


def test_says_why_it_cannot_judge() -> None:
    assert "no kernels that communicate" in (skipped(trap_marks_on_the_host(), RULE) or "")
    assert "at the same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_inference_has_no_gradients_to_exchange() -> None:
    (finding,) = findings(fires(), RULE)
    trained = ddp(overlap=0, comm=2000)
    trained.op("Optimizer.step#SGD.step", 5000, 10)
    (other,) = findings(trained, RULE)
    assert ("gradients" in finding.advice.text, finding.code) == (False, None)
    assert "gradients" in other.advice.text
    assert other.code is not None
    assert "DistributedDataParallel" in other.code
