"""Tests of the rule `fp64-on-gpu`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.cpu_work import AROUND
from tests.rules.judging import findings
from tests.rules.situations.fp64_on_gpu import DGEMM, fires, fires_in_a_table, fires_on_a_cpu, fires_without_shapes

RULE = "fp64-on-gpu"
CPU_STEP = 11_000_000 + AROUND


def test_half_goes_away_and_nearly_all_of_products() -> None:
    # 4 ms product and 2 ms sum of 10 ms: at least half of 6, at most 15/16 of 4 and half of 2
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.6)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3e6, 4.75e6))
    assert finding.evidence[0].where[0].name == "aten::mm"


def test_names_tell_the_same_without_shapes() -> None:
    (finding,) = findings(fires_without_shapes(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3e6, 4.75e6))
    assert finding.evidence[0].where[0].name == DGEMM


def test_a_table_does_not_know_the_gpu() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.confidence == "C"
    assert "is unknown" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((30e6, 56.25e6))


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.6}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.6 - 1e-9})


def test_on_a_cpu_what_is_beyond_the_calls() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(6_000_000 / CPU_STEP), "the view computes nothing"
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    work = 3_998_000 + 1_998_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.55 * work, 0.85 * work))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text + finding.not_when.text


def test_edge_host_share() -> None:
    share = findings(fires_on_a_cpu(), RULE)[0].evidence[0].observed
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share - 1e-9})
