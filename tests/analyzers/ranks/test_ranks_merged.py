"""The report on ranks that were merged into one file is that on their files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import traceanalyzer as ta
from tests.builders.merging import WAYS, merged, offset
from tests.builders.ranks import Meeting, run
from tests.cli.running import call
from traceanalyzer.report.model import Report

FIXTURES = Path(__file__).parents[3] / "fixtures"
SETS = {
    "captured": ("captured/command_rank0", "captured/command_rank1"),
    "slow rank": ("lab/ddp-slow-rank.small.before", "lab/ddp-slow-rank.rank1.small.before"),
    "buffers": ("lab/ddp-buffers.large.before", "lab/ddp-buffers.rank1.large.before"),
}


def said(report: Report) -> dict[str, Any]:
    """All of a report but names and sizes of files, times since 1970, and what is said of merging."""
    content: dict[str, Any] = msgspec.to_builtins(report)
    content["warnings"] = [one for one in content["warnings"] if not one["id"].startswith("q-ranks-merged")]
    del content["source"]
    content["trace"]["base_ns"] = None
    for row in content["analyses"]["ranks"]["ranks"]:
        row["file"] = None
    return content


def written(folder: Path, contents: list[dict[str, Any]]) -> list[Path]:
    paths = [folder / f"rank{rank}.json" for rank in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content), "utf-8")
    return paths


@pytest.mark.parametrize("way", WAYS)
def test_a_merged_file_of_ranks_gives_the_report_of_its_ranks_apart(way: str, tmp_path: Path) -> None:
    meetings = [Meeting(lambda rank, step: 1000 + 300 * (rank == 2)), Meeting(lambda rank, step: 500)]
    contents = [trace.build(number=float) for trace in run(4, meetings)]
    together = tmp_path / "merged.json"
    together.write_bytes(merged(contents, WAYS[way]))
    report = ta.ranks(together)
    assert said(report) == said(ta.ranks(written(tmp_path, contents)))
    assert report.source.name == "merged.json"
    assert report.source.size_bytes == together.stat().st_size
    assert "4 ranks were merged" in report.warnings[0].message.text


@pytest.mark.parametrize("names", SETS.values(), ids=SETS)
def test_recorded_ranks_give_the_same_report_when_merged(names: tuple[str, ...], tmp_path: Path) -> None:
    contents = [json.loads(gzip.decompress((FIXTURES / f"{name}.json.gz").read_bytes())) for name in names]
    together = tmp_path / "merged.json"
    together.write_bytes(merged(contents, offset))
    for content in contents:  # what only the file of a rank says
        content["distributedInfo"].pop("world_size")
        content.pop("traceanalyzer", None)
    assert said(ta.ranks(together)) == said(ta.ranks(written(tmp_path, contents)))


def test_the_command_compares_merged_ranks(tmp_path: Path) -> None:
    contents = [trace.build(number=float) for trace in run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == 1))])]
    together = tmp_path / "merged.json"
    together.write_bytes(merged(contents, offset))
    result = call("report", together)
    assert result.code == 0
    assert "wait for rank 1" in " ".join(result.out.split())
    assert "does not say which rank is which" in " ".join(result.out.split())
    assert ta.whatif(ta.load(together), ranks=[1]).saving_ns[1] == pytest.approx(300_000)
    mixed = ta.analyze(ta.load(together))
    assert any("3 processes were merged into this file" in warning.message.text for warning in mixed.warnings)
