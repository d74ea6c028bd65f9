"""What can be compared: traces, saved reports, folders of captures and ranks, runs of documents."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from sides import QUIET, report, training, written

from tests.builders.malformed import MALFORMED, Malformed
from tests.builders.ranks import Meeting, run
from traceanalyzer.comparison import diff
from traceanalyzer.errors import TraceAnalyzerError, UnusableInputError, UsageError
from traceanalyzer.formats import render
from traceanalyzer.formats.difference import answer
from traceanalyzer.inputs.opening import load
from traceanalyzer.multirank import ranks
from traceanalyzer.pipeline import StepChoice, analyze

FIXTURES = Path(__file__).parents[2] / "fixtures"
SLOWER = [round(1.2 * us) for us in QUIET]

TABLE = """
# {title}
-----------------------  ------------  ------------  ------------  ------------
                   Name      Self CPU     CPU total     Self CUDA    # of Calls
-----------------------  ------------  ------------  ------------  ------------
          ProfilerStep*       1.000ms      50.000ms       0.000us            10
               aten::mm      20.000ms      20.000ms      {mm}            40
-----------------------  ------------  ------------  ------------  ------------
Self CPU time total: 50.000ms
Self CUDA time total: {mm}
"""


def document(path: Path, *device_times: str) -> Path:
    path.write_text("\n".join(TABLE.format(title=f"Run {i}", mm=mm) for i, mm in enumerate(device_times, 1)))
    return path


def test_a_saved_report_is_as_good_as_its_trace(tmp_path: Path) -> None:
    base, head = written(training(), tmp_path / "a.json.gz"), written(training(SLOWER), tmp_path / "b.json")
    for path, trace in ((tmp_path / "a.report.json", training()), (tmp_path / "b.report.json", training(SLOWER))):
        path.write_text(render(report(trace), "json"))
    of_traces = diff(base, head)
    of_reports = diff(tmp_path / "a.report.json", tmp_path / "b.report.json")
    assert of_reports.verdict == of_traces.verdict
    assert of_reports.rankings == of_traces.rankings
    assert of_reports.findings == of_traces.findings
    assert diff(base, tmp_path / "a.report.json").verdict.outcome == "no-change"


def test_a_report_in_memory_is_a_side() -> None:
    assert diff(report(training()), report(training(SLOWER))).verdict.outcome == "slower"
    with pytest.raises(UsageError, match="name two"):
        diff(report(training()))


def test_a_folder_is_a_run_of_several_captures(tmp_path: Path) -> None:
    for number in range(3):
        written(training(first=10 * number), tmp_path / "base" / f"capture{number}.json.gz")
        written(training(SLOWER), tmp_path / "head" / "deep" / f"capture{number}.json")
    found = diff(tmp_path / "base", tmp_path / "head")
    assert (found.base.name, found.base.traces, found.base.steps) == ("base", 3, 18)
    assert found.verdict.outcome == "slower"
    assert found.verdict.change_share == pytest.approx(0.2, abs=0.001)


def test_ranks_are_matched_and_one_step_of_all_ranks_is_one_step(tmp_path: Path) -> None:
    for rank in range(2):
        written(training(rank=rank), tmp_path / "base" / f"rank{rank}.json")
    for rank in range(4):
        written(training(SLOWER, rank=rank), tmp_path / "head" / f"rank{rank}.json")
    found = diff(tmp_path / "base", tmp_path / "head")
    assert (found.base.ranks, found.head.ranks, found.head.ranks_left_out) == ((0, 1), (0, 1), (2, 3))
    assert found.step_time is not None
    assert found.step_time.base.count == len(QUIET), "two ranks are not twice as many independent steps"
    assert {check.id: check.similarity for check in found.comparability.checks}["ranks"] == 0.5
    kernels = next(ranking for ranking in found.rankings if ranking.key == "kernels")
    assert not kernels.rows, "per step of one rank, nothing changed"


def of_ranks(folder: Path, late: int) -> Path:
    """Four ranks in a folder; rank 2 is late by so many microseconds in each step."""
    for rank, trace in enumerate(run(4, [Meeting(lambda r, s: 1000 + late * (r == 2))], steps=6)):
        written(trace, folder / f"rank{rank}.json")
    return folder


def test_runs_of_ranks_are_compared_by_who_is_late_and_what_collectives_take(tmp_path: Path) -> None:
    found = diff(of_ranks(tmp_path / "base", 400), of_ranks(tmp_path / "head", 0))
    assert found.run is not None
    assert (found.run.base.late_ranks, found.run.base.late_ns) == ((2,), 400_000)
    assert (found.run.head.late_ranks, found.run.head.late_ns) == ((), None)
    assert (found.run.base.wait_ns, found.run.head.wait_ns) == (300_000, 0)
    (row,) = found.run.collectives
    assert (row.operation, row.group_size, row.base_count, row.head_count) == ("all_reduce", 4, 1, 1)
    assert (row.base_wait_ns, row.head_wait_ns) == (300_000, 0)
    assert (row.base_transfer_ns, row.head_transfer_ns) == (200_000, 200_000)
    text = " ".join(answer(found).render("terminal").split())
    assert "Before, the others waited for these ranks: 2; that made a step 400 us longer." in text


def test_of_several_ranks_findings_and_headlines_are_those_of_all_ranks(tmp_path: Path) -> None:
    """One rank alone shows only that it communicates long, and cannot say that it waits."""
    base = of_ranks(tmp_path / "base", 400)
    found = diff(base, of_ranks(tmp_path / "head", 0))
    assert found.base_view is not None
    (headline,) = ranks(base).headlines
    assert found.base_view.headline == headline.message
    assert headline.text.endswith("The other ranks wait for rank 2, which costs 0.40 of the 1.6 ms of a step.")
    (alone,) = analyze(load(base / "rank0.json")).headlines
    assert alone.message != headline.message
    (late,) = [change for change in found.findings if change.rule == "comm-straggler"]
    assert (late.status, late.base_ns, late.head_ns) == ("fixed", 400_000, 0)
    communicating = [c for c in found.findings if c.resource == "communication" and c.status == "fixed"]
    assert communicating == [late], "waiting for the late rank counts once"
    comment = answer(found).render("markdown").partition("<details>")[0]
    assert "Before, the others waited for these ranks: 2; that made a step 400 us longer." in comment
    assert "Fixed: Ranks wait for late ranks (\u2212400 us)." in comment


def test_one_trace_a_side_has_no_ranks_to_compare(tmp_path: Path) -> None:
    one = written(training(rank=0), tmp_path / "a.json")
    assert diff(one, one).run is None


def test_a_report_on_several_ranks_is_no_side(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(render(ranks(of_ranks(tmp_path / "base", 400)), "json"))
    with pytest.raises(UnusableInputError, match="several ranks together"):
        diff(tmp_path / "run.json", tmp_path / "base")


def test_a_folder_with_a_trace_and_its_report_counts_it_once(tmp_path: Path) -> None:
    written(training(), tmp_path / "run" / "trace.json.gz")
    (tmp_path / "run" / "report.json").write_text(render(report(training()), "json"))
    (tmp_path / "run" / "config.json").write_text('{"lr": 0.1}')
    found = diff(tmp_path / "run", tmp_path / "run")
    assert found.base.traces == 1
    assert found.base.ignored == ("config.json", "report.json")
    (tmp_path / "run" / "trace.json.gz").unlink()
    assert diff(tmp_path / "run", tmp_path / "run").base.ignored == ("config.json",)


def test_runs_of_documents_are_named_behind_a_hash(tmp_path: Path) -> None:
    notes = document(tmp_path / "notes.md", "40.000ms", "10.000ms", "11.000ms")
    found = diff(f"{notes}#run-1", f"{notes}#2")
    assert (found.base.run, found.head.run, found.base.title) == ("run-1", "run-2", "Run 1")
    device = next(part for part in found.parts if part.id == "device")
    assert (device.base_ns, device.head_ns) == (4_000_000, 1_000_000)
    operators = next(ranking for ranking in found.rankings if ranking.key == "operators")
    assert [(row.name, row.status, row.device_change_ns) for row in operators.rows] == [("aten::mm", "faster", -3e6)]
    assert found.step_time is None


def test_a_document_with_two_runs_needs_no_second_name(tmp_path: Path) -> None:
    notes = document(tmp_path / "notes.md", "90.000ms", "60.000ms")
    found = diff(notes)
    assert (found.base.run, found.head.run) == ("run-1", "run-2")
    assert (found.verdict.outcome, found.verdict.statistic) == ("faster", "total")
    assert diff(f"{notes}#run-1", f"{notes}#run-1").verdict.outcome == "no-change"


def test_small_changes_of_printed_sums_are_inconclusive(tmp_path: Path) -> None:
    notes = document(tmp_path / "notes.md", "90.000ms", "85.000ms")
    assert diff(notes).verdict.outcome == "inconclusive"


def test_a_file_whose_name_has_a_hash_is_that_file(tmp_path: Path) -> None:
    path = written(training(), tmp_path / "a#run-1")
    assert diff(path, path).verdict.outcome == "no-change"


def test_chosen_steps(tmp_path: Path) -> None:
    path = written(training([500_000, *QUIET]), tmp_path / "a.json")
    found = diff(path, path, steps=StepChoice(skip_warmup=1))
    assert found.base.steps == len(QUIET)


def refused(tmp_path: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    trace = str(written(training(), tmp_path / "t.json"))
    notes = str(document(tmp_path / "notes.md", "40.000ms", "10.000ms", "11.000ms"))
    single = str(document(tmp_path / "one.md", "40.000ms"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "hollow").mkdir()
    (tmp_path / "hollow" / "t.json").write_bytes(b"")
    (tmp_path / "cut.json").write_text(render(report(training()), "json")[:5000])
    (tmp_path / "later.json").write_text('{"schema_version": 999, "generator": {"name": "traceanalyzer"}}')
    return {
        "missing": ((str(tmp_path / "no.json"), trace), "no such file"),
        "folder without traces": ((str(tmp_path / "empty"), trace), "contains no trace"),
        "folder with an empty file": ((str(tmp_path / "hollow"), trace), "t.json: is empty"),
        "several runs": ((notes, single), "notes.md#run-3"),
        "unknown run": ((f"{notes}#run-9", single), "no run run-9"),
        "three runs alone": ((notes,), "contains 3 runs"),
        "one run alone": ((single,), "contains one run"),
        "trace alone": ((trace,), "needs something to compare with"),
        "run of a trace": ((f"{trace}#run-1", trace), "only documents"),
        "trace and table": ((trace, single), "export -o table.txt"),
        "cut report": ((str(tmp_path / "cut.json"), trace), "is not a complete report"),
        "report of a later schema": ((str(tmp_path / "later.json"), trace), "schema 999"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "missing",
        "folder without traces",
        "folder with an empty file",
        "several runs",
        "unknown run",
        "three runs alone",
        "one run alone",
        "trace alone",
        "run of a trace",
        "trace and table",
        "cut report",
        "report of a later schema",
    ],
)
def test_what_cannot_be_compared_is_one_line(case: str, tmp_path: Path) -> None:
    arguments, says = refused(tmp_path)[case]
    with pytest.raises(TraceAnalyzerError, match=says) as error:
        diff(*arguments)
    assert "\n" not in str(error.value)


def test_steps_of_a_saved_report_cannot_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(render(report(training()), "json"))
    with pytest.raises(UsageError, match="only be chosen of a trace"):
        diff(path, path, steps=StepChoice(skip_warmup=1))


def test_every_fixture_compared_with_itself_did_not_change() -> None:
    paths = sorted((FIXTURES / "synthetic").iterdir())
    assert paths
    for path in paths:
        found = diff(path, path)
        assert found.verdict.outcome == "no-change", path.name
        assert not any(ranking.rows for ranking in found.rankings), path.name


@pytest.mark.parametrize("file", MALFORMED, ids=lambda file: file.name)
def test_every_malformed_fixture_is_compared_or_refused(file: Malformed) -> None:
    path = FIXTURES / "malformed" / file.name
    if not file.usable:
        with pytest.raises(UnusableInputError):
            diff(path, path)
        return
    assert diff(path, path).verdict.outcome in ("no-change", "inconclusive")


def test_the_result_survives_json() -> None:
    found = diff(report(training()), report(training(SLOWER)), limit=0.03)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_a_saved_report_that_was_changed_is_refused(tmp_path: Path) -> None:
    saved = json.loads(render(report(training()), "json"))
    saved["analyses"]["step_breakdown"]["steps"] = "none"
    (tmp_path / "changed.json").write_text(json.dumps(saved))
    base = written(training(), tmp_path / "a.json.gz")
    with pytest.raises(UnusableInputError, match="was changed after it was written: "):
        diff(base, tmp_path / "changed.json")
