"""Tests of the rule `ddp-buffer-broadcast`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report
from tests.rules.situations.ddp_buffer_broadcast import fires, fires_over_gloo

RULE = "ddp-buffer-broadcast"


def test_is_worth_at_most_the_idle_time_of_the_broadcast() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert 2_000_000 < high < 4_030_000  # of 4,020 us, less what kernels of the step before hide
    assert low == high, "no communication was recorded that could take its place"
    assert finding.summary.params["operator"] in ("aten::flatten_dense_tensors", "aten::unflatten_dense_tensors")
    assert "broadcast_buffers=False" in (finding.code or "")


def test_counts_once_and_is_said_in_the_headline() -> None:
    whole = report(fires())
    assert "host-python-gap" not in [finding.rule for finding in whole.findings]
    assert "the broadcast of DDP's buffers" in whole.headlines[0].message.text


def test_edge_idle_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"idle_share": share}) == []
    assert findings(fires(), RULE, {"idle_share": share - 1e-9})


def test_without_a_gpu_the_whole_broadcast_counts() -> None:
    """50 us to flatten, 10 to call, 400 to send, 50 to copy back; half of it surely."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == pytest.approx(512_000, rel=0.02)
    assert low == pytest.approx(high / 2)
    assert "GPU" not in finding.summary.text
