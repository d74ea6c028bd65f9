"""Real traces and documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.comparison import diff
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.difference import answer
from traceanalyzer.report.difference import Difference


@pytest.fixture(scope="module")
def golden(corpus: Path) -> Difference:
    folder = corpus / "corpus"
    return diff(
        folder / "resnet50_v100_workers0_golden.json.gz",
        folder / "resnet50_v100_workers4_golden.json.gz",
        limit=0.03,
    )


def test_loader_workers_made_the_step_faster(golden: Difference) -> None:
    times = golden.step_time
    assert times is not None
    assert times.base.mean_ns / 1e6 == pytest.approx(152.49, abs=0.01)
    assert times.head.mean_ns / 1e6 == pytest.approx(117.0, abs=0.01)
    assert times.base.median_ns / 1e6 == pytest.approx(158.5, abs=0.05)
    assert times.head.median_ns / 1e6 == pytest.approx(116.8, abs=0.05)
    assert golden.verdict.outcome == "faster"
    assert golden.gate is not None
    assert golden.gate.outcome == "passed"


def test_the_change_is_the_loader(golden: Difference) -> None:
    assert golden.attribution is not None
    assert golden.attribution.params["part"]["text"] == "DataLoader"
    fixed = [finding for finding in golden.findings if finding.status == "fixed"]
    assert "dataloader-bound" in {finding.rule for finding in fixed}
    assert golden.prediction is not None
    assert golden.prediction.measured_ns / 1e6 == pytest.approx(35.49, abs=0.01)


def test_the_other_way_round_it_is_a_regression(corpus: Path) -> None:
    folder = corpus / "corpus"
    found = diff(
        folder / "resnet50_v100_workers4_golden.json.gz",
        folder / "resnet50_v100_workers0_golden.json.gz",
        limit=0.03,
    )
    assert found.gate is not None
    assert found.gate.outcome == "regression"


def test_the_first_screen_tells_it(golden: Difference) -> None:
    screen = answer(golden).render("terminal")
    for words in ("Faster", "152 → 117 ms", "158.5 ms", "116.8 ms", "DataLoader makes most"):
        assert words in " ".join(screen.split())
    assert max(map(len, screen.splitlines())) <= 80


def test_a_trace_with_itself_did_not_change(corpus: Path, corpus_name: str) -> None:
    report = corpus_files.report_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    found = diff(report, report, limit=0.0)
    assert found.verdict.outcome == "no-change"
    assert found.gate is not None
    assert found.gate.outcome == "passed"
    assert not any(ranking.rows for ranking in found.rankings)
    assert {finding.status for finding in found.findings} <= {"kept"}


def test_two_vendors_cannot_be_compared(corpus: Path) -> None:
    folder = corpus / "corpus"
    found = diff(folder / "owlv2_h100_inference.json.gz", folder / "owlv2_mi300_inference.json.gz")
    assert (found.verdict.outcome, found.verdict.reason.id) == ("inconclusive", "diff-incomparable")


def test_before_and_after_of_a_document(corpus: Path) -> None:
    """The story of the write-up: 11 times as fast, because a product of all elements went away."""
    path = next((corpus / "documents").glob("002_*.txt"))
    found = diff(path)
    assert (found.base.run, found.head.run) == ("run-1", "run-2")
    assert found.verdict.outcome == "faster"
    assert found.verdict.change_share == pytest.approx(50.82 / 584.76 - 1)
    device = next(part for part in found.parts if part.id == "device")
    assert (device.base_ns, device.head_ns) == (28_157e6 / 50, 506_149e3 / 50)
    operators = next(ranking for ranking in found.rankings if ranking.key == "operators")
    first = operators.rows[0]
    assert (first.name, first.status) == ("aten::mul", "faster")
    assert first.device_change_ns == pytest.approx((40.221e6 - 17_980e6) / 50)
    shapes = next(ranking for ranking in found.rankings if ranking.key == "operators_by_shape")
    assert shapes.rows[0].detail == "[[8, 128, 984, 1], [8, 128, 984, 128]]"
    assert diff(f"{path}#run-1", f"{path}#run-2") == found


def test_a_document_with_one_run_has_nothing_to_compare(corpus: Path) -> None:
    path = next((corpus / "documents").glob("000_*.txt"))
    with pytest.raises(UsageError, match="contains one run"):
        diff(path)


def test_eager_and_compiled_steps_are_compared(corpus: Path) -> None:
    """Batches of Segment Anything: marked before, launches of one graph after; the decoder was compiled."""
    folder = corpus / "field" / "second"
    found = diff(folder / "sam_batched_before.json.gz", folder / "sam_batched_after.json.gz")
    assert found.verdict.outcome == "faster"
    assert found.verdict.change_share == pytest.approx(-0.64, abs=0.01)
    assert "p < 0.001" in found.verdict.reason.text
    callers = next(ranking for ranking in found.rankings if ranking.key == "callers")
    decoder = callers.rows[0]
    assert decoder.name == "generate_masks 0 1 0 1"
    assert decoder.base is not None
    assert decoder.head is not None
    assert (decoder.base.device_ns, decoder.head.device_ns) == pytest.approx((44.14e6, 9.668e6), rel=0.01)
    fixed = {each.rule: each for each in found.findings if each.status == "fixed"}
    assert 0 < (fixed["mixed-precision-unused"].saved_ns or 0) < 22.2e6


def test_a_batch_eight_times_as_large_is_said(corpus: Path) -> None:
    folder = corpus / "field" / "pairs"
    found = diff(
        folder / "particle_transformer_a100_bs2.json.gz", folder / "particle_transformer_a100_bs16.json.gz", limit=0.03
    )
    assert "8 times as much data" in found.verdict.reason.text
    assert "33 ms became 4.6 ms: 7.16x the throughput" in found.verdict.reason.text
    assert found.attribution is None
    assert found.gate is not None
    assert found.gate.outcome == "inconclusive"


def test_the_operator_that_decides_has_figures(corpus: Path) -> None:
    """A TorchScript call that compiles for 297 ms."""
    before = corpus / "field" / "pairs" / "particle_transformer_a100_bs128.json.gz"
    found = diff(before, corpus / "field" / "second" / "particle_transformer_a100_bs256.json.gz")
    (line,) = [line for line in answer(found).render("terminal").splitlines() if "delta_r2" in line]
    assert line.endswith("296.3 ms  +296.3 ms")
