"""Tests of the rule `conv-layout-transposes`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.rules.judging import findings
from tests.rules.situations.conv_layout_transposes import TO_FIRST, TO_LAST, fires, fires_in_a_table

RULE = "conv-layout-transposes"


def test_at_least_half_of_the_turning_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.2)
    assert {place.name for place in finding.evidence[0].where} == {TO_FIRST, TO_LAST}
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1e6, 2e6))
    assert finding.summary.params["calls"] == 2


def test_a_table_tells_by_names() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((10e6, 20e6))
    assert finding.evidence[0].where[0].kind == "row"


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.2}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.2 - 1e-9})


def test_a_real_training_in_channels_first(corpus: Path) -> None:
    measured = corpus_files.report_of(corpus / "corpus" / "ddp_a100_nccl_rank0.json.gz")
    (finding,) = [f for f in measured.findings if f.rule == RULE]
    assert finding.evidence[0].observed == pytest.approx(0.0915, abs=0.001)
    assert (finding.latent, finding.blocked_by) == (True, "host")
