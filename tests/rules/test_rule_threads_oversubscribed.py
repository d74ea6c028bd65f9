"""Tests of the rule `threads-oversubscribed`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.anomaly_mode import fires as without_capture
from tests.rules.situations.threads_oversubscribed import (
    fires,
    in_a_table,
    trap_as_many_threads_as_cores,
    trap_unknown_threads,
    working,
)

RULE = "threads-oversubscribed"
NEEDED = 2 * 128**3 / 16 + 3 * 4 * 128**2 / 4 + 10_000
"""What one core needs for a product, in ns."""


def test_what_one_core_needs_is_not_saved() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    step = 10 * 2_010_000
    assert finding.saving.direct_ns_per_step == pytest.approx((10 * (2_000_000 - NEEDED), 7 / 8 * step))
    assert "Threads of an operator: 16;" in finding.summary.text
    assert finding.code == "torch.set_num_threads(2)  # or OMP_NUM_THREADS=2 in the environment"
    assert finding.severity == "critical"


def test_without_the_numbers_nothing_is_said() -> None:
    assert "no more threads" in (skipped(trap_as_many_threads_as_cores(), RULE) or "")
    assert "traceanalyzer capture" in (skipped(trap_unknown_threads(), RULE) or "")
    assert "traceanalyzer capture" in (skipped(without_capture(), RULE) or "")
    assert "how many threads" in (skipped(in_a_table(), RULE) or "")


def test_edge_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"share": share}) == []
    assert findings(fires(), RULE, {"share": share - 1e-9})


def test_edge_threads_per_core() -> None:
    assert findings(working(2000, threads=3), RULE)
    assert findings(working(2000, threads=3), RULE, {"threads_per_core": 1.5}) == []
