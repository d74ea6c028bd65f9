"""A batch from the folder of traces to the index: everything told, nothing twice, the same bytes again."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from tests.batching import making
from tests.batching.conftest import Finished
from tests.batching.making import batch, population, reports, trace, tree, write
from traceanalyzer.batching import ReportOptions
from traceanalyzer.errors import OutputError, UnusableInputError
from traceanalyzer.inputs.storage import STATE, open_folder


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def test_population(finished: Finished, tmp_path: Path) -> None:
    """A report or a reason for each, twice with the same bytes."""
    good, bad = finished.good, finished.bad
    counts = finished.counts
    assert (counts.done, counts.failed, counts.left_out, counts.recalled) == (good, bad, 0, 0)
    assert len(reports(finished.target)) == good
    batch(finished.source, tmp_path / "second", jobs=1)
    assert tree(finished.target) == tree(tmp_path / "second")

    failed = {name: row["error"] for name, row in rows(finished.target).items() if row["status"] == "failed"}
    assert len(failed) == bad
    assert all(failed.values())
    page = (finished.target / "index.html").read_text("utf-8")
    assert all(name in page for name in failed)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 6, 1)
    batch(source, tmp_path / "out")
    before = tree(tmp_path / "out")
    counts, told = batch(source, tmp_path / "out")
    assert (counts.done, counts.recalled, counts.failed) == (6, 6, 1)
    assert told.total == (0, 0)
    assert tree(tmp_path / "out") == before


def _touch(source: Path, target: Path) -> None:
    changed = next(source.rglob("step_00001.json"))
    write(changed, trace(77))
    os.utime(changed, ns=(1, 1))


def _remove_report(source: Path, target: Path) -> None:
    next(target.rglob("step_00001.json.report.json")).unlink()


def _cut_report(source: Path, target: Path) -> None:
    report = next(target.rglob("step_00001.json.report.json"))
    report.write_bytes(report.read_bytes()[:100])


def _cut_record(source: Path, target: Path) -> None:
    record = next((target / STATE).rglob("step_00001.json.json"))
    record.write_bytes(record.read_bytes()[:100])


@pytest.mark.parametrize("change", [_touch, _remove_report, _cut_report, _cut_record])
def test_only_what_is_missing_or_changed_is_done_again(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    source = population(tmp_path / "in", 5, 0)
    batch(source, tmp_path / "out")
    change(source, tmp_path / "out")
    _, told = batch(source, tmp_path / "out")
    assert [Path(name).name for name in told.ended] == ["step_00001.json"]
    batch(source, tmp_path / "fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


def test_other_options_are_other_reports(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 3, 0)
    batch(source, tmp_path / "out")
    counts, _ = batch(source, tmp_path / "out", options=ReportOptions(formats=("json", "markdown")))
    assert counts.recalled == 0
    assert len(list((tmp_path / "out").rglob("*.report.md"))) == 3


def test_progress_counts_files_and_bytes(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 5, 2)
    _, told = batch(source, tmp_path / "out")
    size = sum(path.stat().st_size for path in source.rglob("*.*"))
    assert told.total[0] == len(told.ended) == 6  # the empty one needs no worker
    assert told.total[1] == told.bytes == size
    assert list(told.failures) == ["part_1/001_cut_in_header.json"]


def test_tables_are_found_in_texts_and_other_files_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "in"
    write(source / "run.log", b"x" * 400_000 + b"\n" + making.TABLE.encode())
    write(source / "notes.md", b"Self CPU is a column, and this is no table.\n")
    write(source / "readme.txt", b"nothing")
    write(source / "config.json", b'{"lr": 0.1}')
    write(source / "a" / "trace.json", trace())
    counts, _ = batch(source, tmp_path / "out")
    assert (counts.done, counts.failed, counts.left_out) == (2, 0, 3)
    assert set(rows(tmp_path / "out")) == {"run.log", "a/trace.json"}


def test_reports_are_not_taken_for_traces(tmp_path: Path) -> None:
    """The reports may lie among the traces."""
    source = population(tmp_path / "in", 3, 0)
    batch(source, source, options=ReportOptions(formats=("json", "markdown")))
    counts, _ = batch(source, source, options=ReportOptions(formats=("json", "markdown")))
    assert (counts.done, counts.recalled, counts.failed) == (3, 3, 0)


def test_nothing_found(tmp_path: Path) -> None:
    write(tmp_path / "in" / "config.json", b"{}")
    with pytest.raises(UnusableInputError, match="contains no trace"):
        batch(tmp_path / "in", tmp_path / "out")
    with pytest.raises(UnusableInputError, match="no such file"):
        batch(tmp_path / "missing", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_pages_of_others_are_not_overwritten(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 1, 0)
    index = write(tmp_path / "out" / "index.html", b"mine")
    with pytest.raises(OutputError, match=r"index\.html exists"):
        batch(source, tmp_path / "out")
    assert index.read_bytes() == b"mine"
    batch(source, tmp_path / "out", force=True)
    assert index.read_bytes() != b"mine"


def test_a_report_of_somebody_else_fails_its_file_only(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 2, 0)
    taken = write(tmp_path / "out" / "part_0" / "step_00000.json.gz.report.json", b"mine")
    counts, told = batch(source, tmp_path / "out")
    assert (counts.done, counts.failed) == (1, 1)
    assert "--force" in told.failures["part_0/step_00000.json.gz"]
    assert taken.read_bytes() == b"mine"


def test_what_an_interrupted_write_left_is_removed(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 1, 0)
    left = write(tmp_path / "out" / "part_0" / ".traceanalyzer-0123456789abcdef", b"half")
    batch(source, tmp_path / "out")
    assert not left.exists()


def test_one_batch_at_a_time(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 1, 0)
    with open_folder(str(tmp_path / "out")).alone(), pytest.raises(OutputError, match="another batch"):
        batch(source, tmp_path / "out")


def test_ranks_are_one_run(tmp_path: Path) -> None:
    for rank in (0, 2):
        name = f"node_{4000 + rank}.170000000000{rank}.pt.trace.json"
        write(tmp_path / "in" / name, trace(10 * (rank + 1), rank=rank, world=4))
    write(tmp_path / "in" / "alone.json", trace(99))
    batch(tmp_path / "in", tmp_path / "out")
    found = rows(tmp_path / "out")
    assert {row["run"] for name, row in found.items() if "node" in name} == {"*"}
    page = (tmp_path / "out" / "index.md").read_text("utf-8")
    assert "2 of 4, missing: 1, 3" in page
    wasted = [int(row["wasted_ns"]) for name, row in found.items() if "node" in name]
    assert wasted == [100_000 - 10_000, 100_000 - 30_000]
    assert page.index("`alone.json`") < page.index("`*`"), "the run in which there is something to gain comes first"


def test_records_say_what_was_written(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 1, 0)
    batch(source, tmp_path / "out")
    record = json.loads((tmp_path / "out" / STATE / "part_0" / "step_00000.json.gz.json").read_bytes())
    (output,) = record["outputs"]
    assert (tmp_path / "out" / output["name"]).stat().st_size == output["size_bytes"]
