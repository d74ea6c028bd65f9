"""collectives-many."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.collectives_many import fires, trap_tensor_parallel_inference
from tests.rules.situations.dataloader_bound import fires_in_a_table

RULE = "collectives-many"


def test_nine_tenths_could_go() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params["calls"] == 200
    assert finding.summary.params["exposed"] == pytest.approx(4_000_000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(3_600_000))


def test_says_why_it_cannot_judge() -> None:
    assert "between layers" in (skipped(trap_tensor_parallel_inference(), RULE) or "")
    assert "same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 200}) == []
    assert findings(fires(), RULE, {"calls": 199.9})


def test_edge_mean_ns() -> None:
    assert findings(fires(), RULE, {"mean_ns": 20_000}) == []
    assert findings(fires(), RULE, {"mean_ns": 20_001})


def test_edge_exposed_share() -> None:
    share = 4000 / 10_100
    assert findings(fires(), RULE, {"exposed_share": share + 0.001}) == []
    assert findings(fires(), RULE, {"exposed_share": share - 0.001})
