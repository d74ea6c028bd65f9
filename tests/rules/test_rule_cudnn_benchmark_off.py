"""Tests of the rule `cudnn-benchmark-off`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.cudnn_benchmark_off import fires, trap_unknown_strides
from tests.rules.situations.dataloader_bound import fires_in_a_table

RULE = "cudnn-benchmark-off"


def test_the_best_way_seen_is_the_bound() -> None:
    # in each step one call takes 3 ms where 1 ms would do; the step has 6 ms
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(2e6))
    assert finding.evidence[0].observed == pytest.approx(1 / 3)
    assert finding.summary.params["slow"] == pytest.approx(3e6)
    assert finding.summary.params["best"] == pytest.approx(1e6)
    assert finding.severity == "low"


def test_without_stride_and_padding_it_is_skipped() -> None:
    assert "stride and padding" in (skipped(trap_unknown_strides(), RULE) or "")
    assert "which call launched" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 1 / 3}) == []
    assert findings(fires(), RULE, {"gpu_share": 1 / 3 - 1e-9})


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 3})
    assert findings(fires(), RULE, {"calls": 4}) == []
