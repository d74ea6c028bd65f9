"""Tests of the rule `logits-of-all-tokens`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.logits_of_all_tokens import fires, fires_in_a_table

RULE = "logits-of-all-tokens"

# elements of 1024 rows: 1024 * 32000 + 1024 * (1024 + 32000); of 4 rows: 1024 * 32000 + 4 * 33024
LEAST = 1 - 32_900_096 / 66_584_576
MOST = 1 - 4 / 1024


def test_between_memory_and_arithmetic() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(100 / 1000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((LEAST * 100_000, MOST * 100_000))
    assert (finding.summary.params["rows"], finding.summary.params["chosen"]) == (1024, 4)
    assert finding.evidence[0].where[0].shapes == "[[1024,1024],[1024,32000]]"
    assert finding.stage == "preview"


def test_a_table_tells_as_much() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((LEAST * 1e8, MOST * 1e8))


def test_edge_gpu_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"gpu_share": share}) == []
    assert findings(fires(), RULE, {"gpu_share": share - 1e-9})


def test_edge_outputs() -> None:
    assert findings(fires(), RULE, {"outputs": 32_001}) == []
    assert findings(fires(), RULE, {"outputs": 32_000})


def test_edge_rows_per_choice() -> None:
    assert findings(fires(), RULE, {"rows_per_choice": 256.1}) == []
    assert findings(fires(), RULE, {"rows_per_choice": 256})
