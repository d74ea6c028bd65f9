"""Tests of the rule `dtype-cast-churn`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dtype_cast_churn import fires, fires_on_a_cpu, in_a_table, norms

RULE = "dtype-cast-churn"


def test_half_to_all_of_the_casts() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((500_000, 1_000_000))
    assert finding.summary.params["casts"] == 20
    assert {finding.summary.params["one"], finding.summary.params["other"]} == {"BFloat16", "float"}


def test_without_types_nobody_can_tell() -> None:
    assert "element types were not recorded" in (skipped(norms(types=("", "")), RULE) or "")


def test_a_table_cannot_tell() -> None:
    assert "element types" in (skipped(in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.1}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.0999})


def test_on_a_cpu_casts_and_their_calls() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.summary.params["casts"] == 20
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    low, high = finding.saving.direct_ns_per_step
    assert low == pytest.approx(20 * 20_000)
    assert high == pytest.approx(1.4 * (20 * 20_000 + 19 * 20_000)), "20 us of Python before all but the first"
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_edge_host_share() -> None:
    share = findings(fires_on_a_cpu(), RULE)[0].evidence[0].observed
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share - 1e-9})
