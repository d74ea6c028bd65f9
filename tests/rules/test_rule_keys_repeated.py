"""Tests of the rule `keys-repeated`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report
from tests.rules.situations.keys_repeated import (
    EXPANDED,
    fires,
    fires_in_a_table,
    fires_in_a_table_with_other_copies,
    fires_on_batched_products,
    fires_with_heads_after_the_sequence,
    fires_without_a_flash_kernel,
)

RULE = "keys-repeated"


def test_half_to_all_of_the_copies_before_a_flash_kernel() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(100 / 1000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000, 100_000))
    assert (finding.summary.params["heads"], finding.summary.params["queries"]) == (2, 14)
    assert finding.summary.params["copies"] == 2
    shape = str(list(EXPANDED)).replace(" ", "")
    assert finding.evidence[0].where[0].shapes == f"[{shape},{shape},[]]"
    assert finding.stage == "preview"


@pytest.mark.parametrize("build", [fires_without_a_flash_kernel, fires_on_batched_products])
def test_other_kernels_may_not_take_fewer_heads(build) -> None:  # type: ignore[no-untyped-def]
    (finding,) = findings(build(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(100_000))


def test_heads_after_the_sequence() -> None:
    (finding,) = findings(fires_with_heads_after_the_sequence(), RULE)
    assert (finding.summary.params["heads"], finding.summary.params["queries"]) == (2, 14)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000, 100_000))


def test_a_table_tells_as_much() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000_000, 100_000_000))


@pytest.mark.parametrize("build", [fires, fires_in_a_table])
def test_the_same_copies_are_no_other_finding(build) -> None:  # type: ignore[no-untyped-def]
    rules = {finding.rule for finding in report(build()).findings}
    assert RULE in rules
    assert "copies-materialized" not in rules


def test_an_older_torch_gets_no_code_that_it_lacks() -> None:
    trace = fires()
    trace.metadata["traceanalyzer"] = {"version": 1, "versions": {"torch": "2.4.1"}}
    (finding,) = findings(trace, RULE)
    assert not finding.code
    assert "2.5" in finding.advice.text


def test_other_copies_of_a_table_stay_another_finding() -> None:
    # 160 ms of copies below reshape, of which keys and values are 100 ms
    (finding,) = findings(fires_in_a_table_with_other_copies(), "copies-materialized")
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((30_000_000, 60_000_000))
    assert [place.shapes for place in finding.evidence[0].where] == ["[[512, 512], [512, 512], []]"]


def test_edge_gpu_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"gpu_share": share}) == []
    assert findings(fires(), RULE, {"gpu_share": share - 1e-9})
