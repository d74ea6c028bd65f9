"""The command `traceanalyzer whatif`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call
from tests.rules.loader.test_dataloader_single_process import fires
from traceanalyzer.errors import UsageError
from traceanalyzer.prediction import whatif


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return str(fires().write(tmp_path / "trace.json"))


def test_a_free_loader_saves_its_waits(trace: str) -> None:
    run = call("whatif", trace, "--loader", "0", "--format", "json", "-q")
    assert run.code == 0
    found = json.loads(run.out)
    low, point, high = found["saving_ns"]
    resources = ta.analyze(ta.load(trace)).headlines[0].resources  # type: ignore[arg-type]
    assert 0 < low <= point <= high <= resources.loader_ns * 1.03
    assert found["predicted_ns"] == [found["step_ns"] - ns for ns in (high, point, low)]
    assert [edit["kind"] for edit in found["edits"]] == ["loader"]
    assert found["replay"]["abstained"] is False


def test_half_the_wait_is_less_than_all_of_it(trace: str) -> None:
    measured = ta.load(trace)
    assert isinstance(measured, ta.Trace)
    free, faster = whatif(measured, free=["loader"]), whatif(measured, speedup={"loader": 2})
    assert 0 < (faster.saving_ns[1] or 0) < (free.saving_ns[1] or 0)


def test_without_a_change_it_lists_what_would_help(trace: str) -> None:
    run = call("whatif", trace, "-q")
    assert run.code == 0
    assert "What would help most" in run.out
    assert "DataLoader" in run.out


def test_options_are_made_or_not_and_have_no_half(trace: str) -> None:
    found = call("whatif", trace, "--format", "markdown", "-q")
    assert "unknown" not in found.out
    things, options = found.out.split("| Option | Saves | Interval |")
    assert "If twice as fast" in things
    assert "--graphs" in options
    assert "--graphs" not in things


def test_a_folder_of_ranks_is_one_run(tmp_path: Path) -> None:
    for rank, built in enumerate(run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == 1))])):
        built.write(tmp_path / f"rank{rank}.json")
    (tmp_path / "rank9.json").write_text("[]", "utf-8")
    found = call("whatif", str(tmp_path), "--rank", "1", "--format", "json", "-q")
    assert found.code == 0
    assert json.loads(found.out)["saving_ns"] == pytest.approx([294_000, 300_000, 306_000])
    assert "Left out 1 of 4 files" in found.err
    names = [str(tmp_path / f"rank{rank}.json") for rank in range(3)]
    assert "--rank 1" in call("whatif", *names, "-q").out
    refused = call("whatif", *names, "--graphs", "-q")
    assert (refused.code, refused.out) == (2, "")
    assert "--graphs: only --rank applies to several ranks" in refused.err
    assert "needs the traces of several ranks" in call("whatif", names[0], "--rank", "1", "-q").err


def test_unknown_names_have_a_suggestion(trace: str) -> None:
    run = call("whatif", trace, "--free", "laoder", "-q")
    assert (run.code, run.out) == (2, "")
    assert "Did you mean loader" in run.err


@pytest.mark.parametrize("factor", ["nan", "inf", "1e308", "1e-320", "-0.5"])
@pytest.mark.parametrize("option", ["--loader", "--bandwidth", "--speedup"])
def test_factors_with_which_nothing_can_be_computed_are_refused(trace: str, option: str, factor: str) -> None:
    done = call("whatif", trace, option, f"gpu={factor}" if option == "--speedup" else factor)
    assert "must be 0 (free), or from 1e-06 to 1e+09" in assert_one_line(done)


def test_negative_factors_are_refused(trace: str) -> None:
    assert call("whatif", trace, "--speedup", "loader=-1", "-q").code == 2
    measured = ta.load(trace)
    assert isinstance(measured, ta.Trace)
    with pytest.raises(UsageError, match=r"0 \(free\), or from 1e-06 to 1e\+09"):
        whatif(measured, speedup={"loader": -1})


def test_a_saved_report_cannot_be_replayed(trace: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "report.json")
    assert call("report", trace, "-o", saved, "-q").code == 0
    run = call("whatif", saved, "-q")
    assert run.code == 2
    assert "is a saved report without events" in run.err
    difference = str(tmp_path / "difference.json")
    assert call("diff", trace, trace, "-o", difference, "-q").code == 0
    assert "is a saved difference without events" in call("whatif", difference, "-q").err


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.json"])
def test_files_can_be_written_again(trace: str, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    for _ in range(2):
        assert call("whatif", trace, "--loader", "0", "-o", path, "-q").code == 0
    assert "traceanalyzer" in Path(path).read_text("utf-8")


def test_parts_are_labelled_and_their_selectors_stand_in_markdown() -> None:
    screen = call("whatif", TRAINING).out
    assert "class:" not in screen
    assert "owner:" not in screen
    assert re.search(r"\n  elementwise +kernels ", screen)
    assert re.search(r"\n  DataLoader +resource ", screen)
    assert "class:elementwise" in call("whatif", TRAINING, "--format", "markdown").out
    assert "elementwise is gone" in call("whatif", TRAINING, "--gone", "class:elementwise").out


def test_the_interval_includes_workers_only_where_they_cost_something() -> None:
    words = "includes what worker processes"
    assert words in " ".join(call("whatif", TRAINING, "--loader", "0").out.split())
    freed = call("whatif", TRAINING, "--loader", "0", "--free", "loader")
    assert "The saving is between" in freed.out
    assert words not in " ".join(freed.out.split())


def test_counts_are_of_changes_that_have_such_events() -> None:
    loader = call("whatif", TRAINING, "--loader", "0", "--format", "markdown").out
    assert "| Change | Of |\n" in loader
    assert "| no wait for the DataLoader | DataLoader |\n" in loader
    assert "at most 0 ns" not in loader
    both = call("whatif", TRAINING, "--loader", "0.5", "--speedup", "gpu=2", "--format", "markdown").out
    assert "| Change | Of | Device events |\n" in both
    assert "| each wait for the DataLoader takes at most 500 us | DataLoader |  |\n" in both
    assert "| gpu 2 times as fast | GPU | 204 |\n" in both
    assert (
        "| \\* no longer waits | calls that wait | 12 |\n"
        in call("whatif", TRAINING, "--no-sync", "*", "--format", "markdown").out
    )
    edits = json.loads(call("whatif", TRAINING, "--free", "host", "--format", "json").out)["edits"]
    assert [(edit["device_events"], edit["calls"]) for edit in edits] == [(None, None)]


def test_communication_without_any_time_is_not_zero_times_as_fast() -> None:
    ddp = str(FIXTURES / "synthetic" / "ddp_nccl.json.gz")
    free = call("whatif", ddp, "--bandwidth", "0", "--format", "markdown").out
    assert "| communication takes no time | communication |" in free
    assert "communication 2 times as fast" in call("whatif", ddp, "--bandwidth", "2").out
