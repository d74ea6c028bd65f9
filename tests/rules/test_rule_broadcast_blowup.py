"""Tests of the rule `broadcast-blowup`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.cpu_work import AROUND
from tests.rules.judging import findings, report
from tests.rules.situations.broadcast_blowup import fires, fires_in_a_table, fires_on_a_cpu
from traceanalyzer import analyze, load
from traceanalyzer.rules.engine.selection import builtin

RULES = {rule.id: rule for rule in builtin()}
RULE = "broadcast-blowup"
ELEMENTS = 64 * 512 * 512 * 64


def test_what_remains_is_the_arithmetic() -> None:
    # 4 + 3 ms of operators on 2^30 elements; two operations each at 19.5 TFLOP/s remain for both
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(512)
    assert finding.summary.params["elements"] == ELEMENTS
    assert finding.summary.params["count"] == 2
    assert finding.saving is not None
    remains = 2 * 2 * ELEMENTS / 19_500
    assert finding.saving.direct_ns_per_step == pytest.approx((3.5e6, 7e6 - remains), rel=1e-4)
    assert [place.name for place in finding.evidence[0].where] == ["aten::mul", "aten::sum"]


def test_products_with_a_side_of_one_are_a_blow_up_as_well() -> None:
    # ten calls of 4 ms that make 128 million elements, ten of 2 ms that sum them up
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(128)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((30e6, 60e6 - 20 * 2 * 128e6 / 5000))


def test_worked_number_of_document_002(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("002_*")
    measured = analyze(load(document))
    (finding,) = [f for f in measured.findings if f.rule == RULE]
    assert finding.run == "run-1"
    assert finding.summary.params["share"] == pytest.approx(0.89 + 0.0896, abs=0.005), "the family and its copies"
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert low < 553.0e6, "what the author's change removed"
    assert high == pytest.approx(553.0e6, rel=0.02)


def test_a_slow_member_does_not_count_twice() -> None:
    combined = report(fires()).headlines[0].combined
    assert combined is not None
    assert combined.wall_ns_per_step[1] < 10e6


def test_edge_expansion() -> None:
    assert findings(fires(), RULE, {"expansion": 512})
    assert findings(fires(), RULE, {"expansion": 512 + 1e-6}) == []


def test_edge_result_bytes() -> None:
    assert findings(fires(), RULE, {"result_bytes": 4 * ELEMENTS})
    assert findings(fires(), RULE, {"result_bytes": 4 * ELEMENTS + 1}) == []


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.7}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.7 - 1e-9})


def test_on_a_cpu_such_tensors_cost_more_than_their_operators() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    left = 600_000 - 2 * 16 * 128 * 128 / 60
    assert finding.saving.direct_ns_per_step == pytest.approx((0.95 * left, 1.4 * left))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_edge_host_share() -> None:
    share = 600_000 / (1_600_000 + AROUND)
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share * (1 + 1e-9)}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share * (1 - 1e-9)})


def test_edge_host_result_bytes() -> None:
    assert findings(fires_on_a_cpu(), RULE, {"host_result_bytes": 2**20})
    assert findings(fires_on_a_cpu(), RULE, {"host_result_bytes": 2**20 + 1}) == []


def test_the_code_sums_the_axis_that_both_tensors_share() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.code == 'y = torch.einsum("abc,abc->ac", a, b)  # instead of (a * b).sum(1)'
    (several,) = findings(fires(), RULE)
    assert several.code == RULES[RULE].code, "two axes are shared"
