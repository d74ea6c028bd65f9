"""A run of several ranks gets a report of all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.batching import making
from tests.batching.making import batch, trace, tree, write
from traceanalyzer.analyzers.ranks import Ranks
from traceanalyzer.batching import ReportOptions
from traceanalyzer.inputs import saved_reports
from traceanalyzer.inputs.storage import STATE
from traceanalyzer.report.model import Report

_SUFFIX = ".all-ranks.report.json"


def _joined(folder: Path) -> dict[str, Report]:
    """By the file that they are called after."""
    return {
        path.name.removesuffix(_SUFFIX): saved_reports.decode(path.read_bytes(), path.name)
        for path in sorted(folder.rglob(f"*{_SUFFIX}"))
    }


def _ranks(report: Report) -> tuple[int, ...]:
    found = report.result("ranks", Ranks)
    assert found is not None
    return tuple(rank.rank for rank in found.ranks)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run of three ranks, one of two of which one is damaged, and a trace that is alone."""
    for rank in range(3):
        write(tmp_path / "in" / "whole" / f"rank{rank}.json", trace(20 + rank, rank=rank, world=3))
    write(tmp_path / "in" / "half" / "rank0.json", trace(20, rank=0, world=2))
    write(tmp_path / "in" / "half" / "rank1.json", making.BAD["cut_in_header.json"])
    write(tmp_path / "in" / "alone.json", trace(50))
    return tmp_path / "in"


def test_a_run_of_several_ranks_has_one_report(runs: Path, tmp_path: Path) -> None:
    batch(runs, tmp_path / "out")
    joined = _joined(tmp_path / "out")
    assert {name: _ranks(report) for name, report in joined.items()} == {"rank0.json": (0, 1, 2)}
    page = (tmp_path / "out" / "index.md").read_text("utf-8")
    assert page.count(f"whole/rank0.json{_SUFFIX}") == 1


def test_it_does_not_need_reports_as_json(runs: Path, tmp_path: Path) -> None:
    batch(runs, tmp_path / "out", options=ReportOptions(formats=("markdown",)))
    assert (tmp_path / "out" / "whole" / "rank0.json.all-ranks.report.md").exists()
    assert not _joined(tmp_path / "out")


def test_a_new_rank_joins_what_was_done(runs: Path, tmp_path: Path) -> None:
    late = runs / "whole" / "rank1.json"
    data = late.read_bytes()
    late.unlink()
    batch(runs, tmp_path / "out")
    assert [_ranks(report) for report in _joined(tmp_path / "out").values()] == [(0, 2)]
    write(late, data)
    _, told = batch(runs, tmp_path / "out")
    assert sorted(told.ended) == ["half/rank1.json", "whole/rank1.json"]
    assert [_ranks(report) for report in _joined(tmp_path / "out").values()] == [(0, 1, 2)]


def test_what_was_kept_of_a_rank_is_made_again_if_it_is_lost(runs: Path, tmp_path: Path) -> None:
    batch(runs, tmp_path / "out")
    before = tree(tmp_path / "out")
    (tmp_path / "out" / STATE / "whole" / "rank2.json.rank").unlink()
    batch(runs, tmp_path / "out")
    assert tree(tmp_path / "out") == before


@pytest.mark.corpus
def test_the_sampled_ranks_are_one_run(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for path in sorted((corpus / "corpus").glob("sampled_rank*")):
        shutil.copy(path, tmp_path / "in")
    batch(tmp_path / "in", tmp_path / "out")
    (report,) = _joined(tmp_path / "out").values()
    assert _ranks(report) == (0, 1)
    assert "2-127" in (tmp_path / "out" / "index.md").read_text("utf-8")
