"""Numbers worked out by hand for real documents and traces, which findings must show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.formats import language
from traceanalyzer.formats.cards import card
from traceanalyzer.report.model import Finding, Report

pytestmark = pytest.mark.corpus

MS = 1_000_000


@pytest.fixture(scope="module")
def cnn(corpus: Path) -> Report:
    """A CNN in inference that waits for its loader, as a printed table."""
    return document(corpus, "000")


@pytest.fixture(scope="module")
def broadcast(corpus: Path) -> Report:
    """A training with a broadcast that explodes, and the same after the fix, as printed tables."""
    return document(corpus, "002")


def document(corpus: Path, number: str) -> Report:
    (path,) = (corpus / "documents").glob(f"{number}_*.txt")
    return corpus_files.report_of(path)


def one(report: Report, rule: str, run: str | None = None) -> Finding:
    found = [f for f in report.findings if f.rule == rule and f.run == run]
    assert found, f"{rule} not among {sorted({f.rule for f in report.findings if f.run == run})}"
    return found[0]


def wall(finding: Finding) -> tuple[float, float]:
    assert finding.saving is not None
    return finding.saving.wall_ns_per_step


def direct(finding: Finding) -> tuple[float, float]:
    assert finding.saving is not None
    return finding.saving.direct_ns_per_step


def test_the_loader_is_worth_what_nothing_hides(cnn: Report) -> None:
    finding = one(cnn, "dataloader-bound", "run-1")
    assert wall(finding) == pytest.approx((0, 130.71 * MS), rel=1e-4), "there are workers already"
    assert finding.saving is not None
    assert finding.saving.wall_share == pytest.approx((0, 0.748), abs=5e-4)
    arithmetic = finding.saving.arithmetic
    assert arithmetic is not None
    assert [arithmetic.minuend.ns, *(o.ns for o in arithmetic.subtrahends), arithmetic.result_ns] == [
        174_760_000,
        44_050_000,
        6_140_000,
        130_710_000,
    ]
    (headline,) = cnn.headlines
    assert headline.bound == "input"
    assert headline.share == pytest.approx(0.748, abs=5e-4)


@pytest.mark.parametrize(
    ("rule", "ms"),
    [("conv-bias-before-batchnorm", 6.03), ("h2d-blocking", 3.46)],
)
def test_what_is_behind_the_loader_is_latent(cnn: Report, rule: str, ms: float) -> None:
    finding = one(cnn, rule, "run-1")
    assert direct(finding)[1] == pytest.approx(ms * MS, rel=0.01)
    assert wall(finding) == (0, 0)
    assert finding.latent
    assert finding.blocked_by == "loader"


def test_batch_norm_can_be_folded_with_the_bias(cnn: Report) -> None:
    """6.63 ms of batch norm; the bias's 6.03 ms may be claimed too, but only once in what all fixes save."""
    high = direct(one(cnn, "bn-not-folded-inference", "run-1"))[1]
    assert 6.6 * MS <= high <= 12.7 * MS


def test_single_precision_products_are_latent(cnn: Report) -> None:
    finding = one(cnn, "tensor-cores-unused", "run-1")
    assert finding.latent
    assert wall(finding) == (0, 0)


def test_what_is_latent_says_what_it_adds_to_the_fixes_before_it(cnn: Report) -> None:
    combined = cnn.headlines[0].combined
    assert combined is not None
    added = {fix.finding: (fix.wall_ns_per_step[0], None, fix.wall_ns_per_step[1]) for fix in combined.fixes}
    assert [finding.after_fixes_ns_per_step for finding in cnn.findings] == [
        added.get(place) if finding.latent else None for place, finding in enumerate(cnn.findings)
    ]
    finding = one(cnn, "tensor-cores-unused", "run-1")
    told = card(finding, language.of("en")).saves
    assert told == "No gain yet: the DataLoader is the limit; after earlier fixes up to 12 ms per step"


def test_all_fixes_together_leave_what_the_gpu_needs(cnn: Report) -> None:
    (headline,) = cnn.headlines
    assert headline.combined is not None
    assert headline.combined.fixes[0].rule == "dataloader-bound"
    assert headline.combined.wall_ns_per_step[1] <= 174.77 * MS


def test_the_broadcast_multiplication(broadcast: Report) -> None:
    finding = one(broadcast, "shape-roofline-gap", "run-1")
    assert wall(finding)[1] == pytest.approx(295.8 * MS, rel=1e-3)
    assert finding.saving is not None
    assert finding.saving.wall_share[1] == pytest.approx(0.506, abs=1e-3)


def test_waiting_for_a_busy_gpu_is_worth_nothing(broadcast: Report) -> None:
    """The first run waits for most of its steps (527.2 of 584.8 ms), but for a device that works meanwhile."""
    assert [found.rule for found in broadcast.findings if found.run == "run-1" and found.rule.startswith("sync-")] == []


def test_broadcasts_and_products_of_width_one(broadcast: Report) -> None:
    assert one(broadcast, "broadcast-blowup", "run-1").severity == "critical"
    assert one(broadcast, "gemm-degenerate", "run-1").severity in {"medium", "high"}
    (before, after) = broadcast.headlines
    assert (before.bound, after.bound) == ("gpu-memory", "host")


def test_indexing_inside_batch_norm_is_no_loop(corpus: Path) -> None:
    report = document(corpus, "004")
    assert [f.rule for f in report.findings if f.rule == "loop-vectorizable"] == []


def test_workers_are_worth_what_they_measured(corpus: Path) -> None:
    """The median step took 150.0 ms, and 117.8 ms with four workers; typical ones 152.5 and 117.0 ms."""
    before, after = (
        corpus_files.report_of(corpus / "corpus" / f"resnet50_v100_workers{n}_golden.json.gz") for n in (0, 4)
    )
    finding = one(before, "dataloader-bound")
    low, high = wall(finding)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(35.474 * MS, rel=1e-4)
    assert low <= (150.0 - 117.8) * MS <= high
    steps = [report.headlines[0].resources.step_ns for report in (before, after)]
    assert steps == pytest.approx([152.487 * MS, 117.0 * MS], rel=1e-5)
    assert low <= steps[0] - steps[1] <= 1.02 * high  # 35.487 ms: more than predicted by 1.2 %
    assert not [f.rule for f in after.findings if f.rule.startswith("dataloader")]
