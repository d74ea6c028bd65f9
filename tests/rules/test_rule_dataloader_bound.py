"""dataloader-bound."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report
from tests.rules.situations.dataloader_bound import fires, fires_in_a_table, on_the_host, training

RULE = "dataloader-bound"


def test_the_wait_is_bounded_by_what_one_worker_could_hide() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(4_000_000, rel=0.01)
    assert low == pytest.approx(0.8 * 4_000_000, rel=0.01)
    assert finding.severity == "critical"
    assert report(fires(), RULE).headlines[0].bound == "input"


def test_a_loader_slower_than_the_rest_is_not_hidden_by_one_worker() -> None:
    (finding,) = findings(training(9000, 3000), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(9_000_000, rel=0.01)
    assert low == pytest.approx(0.8 * 3_000_000, rel=0.02)


def test_without_a_gpu_there_is_nothing_to_pin_for() -> None:
    (finding,) = findings(on_the_host(), RULE)
    assert finding.advice.id == "dataloader-bound-advice-host"
    assert finding.code is not None
    assert "num_workers" in finding.code
    assert "pin_memory" not in finding.code
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_a_table_tells_at_least_what_nothing_else_can_hide() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_share == pytest.approx((0.8, 0.9))
    arithmetic = finding.saving.arithmetic
    assert arithmetic is not None
    assert arithmetic.result_ns == arithmetic.minuend.ns - max(o.ns for o in arithmetic.subtrahends)
    assert report(fires_in_a_table(), RULE).headlines[0].bound == "input"


def test_edge_exposed_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"exposed_share": share}) == []
    assert findings(fires(), RULE, {"exposed_share": share - 1e-9})


def test_edge_host_share() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.9}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.899})
