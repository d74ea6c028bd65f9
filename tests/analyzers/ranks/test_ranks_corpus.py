"""Two of 128 ranks of a real training, from before collectives had numbers or sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.analyzers.ranks import Ranks
from traceanalyzer.analyzers.ranks.model import RankRange
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.multirank import join, measure_rank
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace

pytestmark = pytest.mark.corpus


def report(corpus: Path) -> Report:
    members = {}
    for rank in (0, 1):
        trace = corpus_files.trace_of(corpus / "corpus" / f"sampled_rank{rank}_of_128.json.gz")
        assert isinstance(trace, Trace)
        members[rank] = measure_rank(trace)
    return join({rank: member for rank, member in members.items() if member is not None}, "sampled")


def test_two_sampled_ranks_give_one_report(corpus: Path) -> None:
    found = report(corpus).result("ranks", Ranks)
    assert found is not None
    assert (found.world_size, found.missing) == (128, (RankRange(2, 127),))
    assert [row.rank for row in found.ranks] == [0, 1]
    assert [step.name for step in found.steps] == ["551", "552"]


def test_collectives_are_matched_by_size_and_order(corpus: Path) -> None:
    """Worked out from the files: one of two reductions per step and both gathers have the same input on both ranks;
    no all-to-all has.

    Their ends by the files' clocks, in us: 307389 and 307334, 627817 and 628149, 1182485 and 1182493, 1249534 and
    1249345; their durations 11727 and 8370, 42496 and 42744, 36158 and 13838, 63644 and 62163.
    """
    found = report(corpus).result("ranks", Ranks)
    assert found is not None
    matching = found.matching
    assert (matching.recorded, matching.matched, matching.by_sequence) == (20, 8, 0)
    assert (matching.not_mutual, matching.unmatched, matching.contradicted) == (0, 12, 0)
    first, second = found.ranks
    assert first.wait_ns == (3357 + 22320 + 1481) * 1000 / 2
    assert second.wait_ns == 248 * 1000 / 2
    assert found.transfer_ns == (8370 + 42496 + 13838 + 62163) * 1000 / 2
    assert second.skew is not None
    assert second.skew.ns == (8 - 55) * 1000 / 2
    assert (second.skew.low_ns, second.skew.high_ns) == (-189_000, 332_000)


def test_missing_ranks_are_told_in_one_line(corpus: Path) -> None:
    (warning,) = [w for w in report(corpus).warnings if w.id == "q-ranks-missing"]
    assert warning.count == 126
    assert "126 of 128 ranks have no trace here (2-127)" in warning.message.text


def test_two_of_128_ranks_are_not_to_blame(corpus: Path) -> None:
    assert "comm-straggler" not in {finding.rule for finding in report(corpus).findings}


def test_what_is_exposed_has_no_price_while_ranks_are_missing(corpus: Path) -> None:
    (exposed,) = (finding for finding in report(corpus).findings if finding.rule == "comm-exposed")
    assert exposed.saving is None
    assert "ranks 2-127 have no trace here" in exposed.summary.text


def test_the_run_is_bound_by_what_its_ranks_are_bound_by(corpus: Path) -> None:
    (headline,) = report(corpus).headlines
    assert headline.bound == "communication"


def test_two_of_128_ranks_are_too_few_for_a_slowdown(corpus: Path) -> None:
    found = report(corpus)
    assert found.analyses["stragglers"] is None
    assert "fewer than half" in {s.id: s.reason.text for s in found.skipped}["stragglers"]


def of_field(corpus: Path, name: str, count: int) -> Stragglers:
    members = {}
    for rank in range(count):
        trace = corpus_files.trace_of(corpus / "field" / "ranks" / f"{name}{rank}.json.gz")
        assert isinstance(trace, Trace)
        members[rank] = measure_rank(trace)
    found = join({rank: member for rank, member in members.items() if member is not None}, name)
    told = found.result("stragglers", Stragglers)
    assert told is not None
    return told


def test_a_recommender_with_a_rank_that_stalls(corpus: Path) -> None:
    """`SendRecv` kernels take 3073 ms in three steps on the other ranks, and 37 ms on rank 2."""
    found = of_field(corpus, "torchrec_v100_stalled_", 4)
    assert (found.late_rank, found.steps) == (2, 3)
    assert found.late_ns_per_step == pytest.approx((3073 - 37) / 3 * 1e6, rel=0.05)
    assert found.error_share < 0.001
    assert max(found.by_kind, key=lambda row: row.slowdown).kind == "host"


def test_a_recommender_without_a_stall(corpus: Path) -> None:
    found = of_field(corpus, "torchrec_v100_plain_", 4)
    assert found.late_ns_per_step is not None
    assert found.late_ns_per_step < 50e6
    assert found.slowdown < 1.3, "of the two steps alike, without the one that takes memory"


def test_a_language_model_with_a_late_rank(corpus: Path) -> None:
    found = of_field(corpus, "nanogpt_h100_compiled_rank", 8)
    assert found.late_rank == 1
    # in three steps its host takes 134.7 ms, and those of ranks 7 and 2 take 133: they hardly wait for anything
    assert found.late_ns_per_step == pytest.approx(2.7e6, rel=0.2)
