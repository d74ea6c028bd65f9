"""`traceanalyzer report`: what the first screen answers, and what the options do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call, spawn
from traceanalyzer import pipeline
from traceanalyzer._version import __version__
from traceanalyzer.cli import report
from traceanalyzer.report import units
from traceanalyzer.report.model import Report

UNMARKED = FIXTURES / "synthetic" / "serving_graphs.json.gz"


def report_of(*arguments: str | Path) -> Any:
    """The JSON report of the training fixture."""
    run = call("report", TRAINING, "--format", "json", *arguments)
    assert (run.code, run.err) == (0, "")
    return json.loads(run.out)


def steps_of(report: Any) -> list[str]:
    return [step["name"] for step in report["analyses"]["step_breakdown"]["steps"]]


def section(screen: str, title: str) -> str:
    """One section of the screen: from its title to the next empty line."""
    return re.split(rf"\n{title}(?:  \d+ of \d+)?(?:  \d+ more in the other formats)?\n", screen)[1].partition("\n\n")[
        0
    ]


@pytest.fixture(scope="module")
def screen() -> str:
    run = call("report", TRAINING)
    assert run.code == 0
    return run.out


@pytest.fixture(scope="module")
def everything() -> str:
    """Sections that the first screen has no room for, too."""
    run = call("report", TRAINING, "--top", "5")
    assert run.code == 0
    return run.out


@pytest.fixture(scope="module")
def whole() -> Any:
    return report_of()["analyses"]


# The first screen


def test_it_says_how_long_a_typical_step_is(screen: str, whole: Any) -> None:
    first = section(screen, "Step time").splitlines()[0]
    assert units.plain_time(whole["recording"]["typical_step_ns"]) in first
    assert "the mean of 5 of 6 steps" in first


def test_it_says_what_was_recorded(everything: str) -> None:
    assert "  Program: training" in section(everything, "What was recorded")


def test_it_says_where_a_step_goes(everything: str, whole: Any) -> None:
    average = whole["recording"]["typical"]["parts"]
    rows = [
        line.split()
        for line in section(everything, "Step time").splitlines()
        if line.count("%") == 1 and line.endswith(("█", "▏"))
    ]
    names = {"Kernels": "kernel", "Copies": "memcpy", "DataLoader": "dataloader"}
    shares = {row[0]: float(row[row.index("%") - 1]) for row in rows if row[0] in names}
    expected = {
        name: pytest.approx(100 * average[f"{names[name]}_ns"] / average["duration_ns"], abs=0.99) for name in shares
    }
    assert len(shares) == 3
    assert shares == expected


def test_it_says_how_busy_the_gpu_is(everything: str, whole: Any) -> None:
    (device,) = whole["gpu"]["devices"]
    row = section(everything, "GPU").splitlines()[-1]
    assert row.split()[0] == str(device["device"])
    for field in ("utilization", "busy_share", "est_sm_efficiency", "est_achieved_occupancy", "tensor_core_share"):
        assert units.share(device["typical"][field]) in row


def ranked(table: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()[1:]]


def test_it_names_the_most_expensive_operators(everything: str, whole: Any) -> None:
    rows = ranked(section(everything, "Operators by device self time"))
    steps = whole["recording"]["typical"]["steps"]
    assert len(rows) == 5
    for shown, row in zip(rows, whole["operators"]["in_steps"], strict=False):
        begin, _, end = shown[0].partition("...")
        assert row["name"].startswith(begin)
        assert row["name"].endswith(end)
        assert shown[1:3] == [str(row["calls"] // steps), units.nanoseconds(row["device_self_ns"] / steps)]


def test_it_names_the_most_expensive_kernels(everything: str, whole: Any) -> None:
    rows = ranked(section(everything, "Kernels"))
    assert len(rows) == 5
    steps = whole["recording"]["typical"]["steps"]
    for shown, row in zip(rows, whole["kernels"]["in_steps"], strict=False):
        begin, end = shown[0].split("...")
        assert row["name"].removeprefix("void ").startswith(begin)  # a word that every other kernel begins with
        assert row["name"].endswith(end)
        assert shown[1:3] == [str(row["calls"] // steps), units.nanoseconds(row["total_ns"] / steps)]


def test_it_names_the_next_command_apart_from_the_report(screen: str) -> None:
    run = spawn("report", TRAINING)
    assert (run.code, run.out) == (0, screen)
    assert run.err.split() == ["Next:", "traceanalyzer", "report", str(TRAINING), "-o", "report.html"]


def test_the_next_command_can_be_pasted(tmp_path: Path) -> None:
    trace = tmp_path / "my trace; rm.json.gz"
    trace.write_bytes(TRAINING.read_bytes())
    hint = call("report", trace).err.split("Next: ")[1]
    assert f"'{trace}'" in hint


def test_the_next_command_keeps_the_options() -> None:
    typed = ("--steps", "5:6", "--lang", "en", "--", str(TRAINING))
    hint = call("report", *typed).err.split("Next: ")[1]
    assert hint.split() == ["traceanalyzer", "report", *typed[:4], "-o", "report.html", *typed[4:]]


# Options


@pytest.mark.parametrize(
    ("steps", "expected"),
    [("5:6", "5 6"), ("7:", "7 8 9"), (":5", "4 5"), ("6", "6"), (":", "4 5 6 7 8 9"), ("8:100", "8 9")],
)
def test_steps_are_chosen_by_number(steps: str, expected: str) -> None:
    assert steps_of(report_of("--steps", steps)) == expected.split()


def test_numbers_of_a_chosen_step_are_those_of_the_step() -> None:
    every = report_of()["analyses"]["step_breakdown"]["steps"]
    one = report_of("--steps", "6")["analyses"]
    assert one["step_breakdown"]["steps"] == [step for step in every if step["name"] == "6"]
    assert one["operators"]["rows"][0]["calls"] == 2


def test_warm_up_is_left_out() -> None:
    assert steps_of(report_of("--skip-warmup", "2")) == ["6", "7", "8", "9"]
    assert steps_of(report_of("--skip-warmup", "1", "--steps", ":5")) == ["5"]
    assert steps_of(report_of("--skip-warmup", "0")) == ["4", "5", "6", "7", "8", "9"]


@pytest.mark.parametrize(
    "choice", [("--steps", "100"), ("--steps", "6:5"), ("--steps", ":3"), ("--skip-warmup", "6")], ids=" ".join
)
def test_steps_that_do_not_exist_name_those_that_do(choice: tuple[str, str]) -> None:
    line = assert_one_line(call("report", TRAINING, *choice))
    assert "steps 4 to 9" in line


def test_a_trace_without_marks_is_one_step() -> None:
    assert_one_line(call("report", UNMARKED, "--steps", "7"))
    assert call("report", UNMARKED, "--steps", "0").code == 0


@pytest.mark.parametrize("steps", ["a", "-1", "1:2:3", "1-3", "1.5", "", " ", "4 5", "9" * 5000])
def test_a_bad_range_is_a_usage_error(steps: str) -> None:
    line = assert_one_line(call("report", TRAINING, f"--steps={steps}"))
    assert "steps" in line


@pytest.mark.parametrize("top", ["1", "3", "7"])
def test_top_is_the_length_of_the_rankings(top: str) -> None:
    screen = call("report", TRAINING, "--top", top).out
    for title in ("Operators by device self time", "Kernels"):
        assert len(ranked(section(screen, title))) == int(top)


def test_json_holds_every_row_whatever_top_says() -> None:
    assert report_of("--top", "1") == report_of()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--top", "0"),
        ("--top", "many"),
        ("--skip-warmup", "-1"),
        ("--format", "docx"),
        ("--no-such-option",),
        ("second.json",),
    ],
    ids=" ".join,
)
def test_a_usage_error_is_one_line(arguments: tuple[str, ...]) -> None:
    assert_one_line(call("report", TRAINING, *arguments))


@pytest.mark.parametrize("arguments", [("report",), ("no-such-command",), ("--no-such-option",)], ids=" ".join)
def test_a_wrong_command_is_one_line(arguments: tuple[str, ...]) -> None:
    assert_one_line(call(*arguments))


def test_without_a_command_it_shows_the_help() -> None:
    run = call()
    shown = (run.out or run.err).splitlines()
    assert shown[0].startswith("Usage: traceanalyzer [OPTIONS] ")
    assert len(shown) > 5
    assert run.code in {0, 2}


def test_quiet_says_nothing_but_the_report(screen: str, tmp_path: Path) -> None:
    run = call("report", TRAINING, "--quiet")
    assert (run.code, run.out, run.err) == (0, screen, "")
    run = call("report", TRAINING, "-q", "-o", tmp_path / "r.md")
    assert (run.code, run.out, run.err) == (0, "", "")


def test_the_version_is_that_of_the_package() -> None:
    run = call("--version")
    assert (run.code, run.err) == (0, "")
    assert __version__ in run.out.split()[-1]


def test_standard_input_is_read_like_a_file(screen: str) -> None:
    packed = spawn("report", "-", stdin=TRAINING.read_bytes())
    assert packed.code == 0
    assert packed.out.replace("stdin:", "gpu_training.json.gz:", 1) == screen
    from_pipe = json.loads(call("report", "-", "--format", "json", stdin=TRAINING.read_bytes()).out)
    assert from_pipe["source"] == {"name": "stdin", "format": "kineto", "size_bytes": None}
    assert from_pipe["analyses"] == report_of()["analyses"]


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_the_same_input_gives_the_same_bytes(form: str) -> None:
    first, second = (
        spawn("report", TRAINING, "--format", form, env={"PYTHONHASHSEED": seed, "TZ": zone})
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    )
    assert first.code == 0
    assert first.stdout
    assert first.stdout == second.stdout


def test_the_place_of_the_file_is_in_no_report(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / TRAINING.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(TRAINING.read_bytes())
    form: Callable[[Path, str], bytes] = lambda file, name: call("report", file, "--format", name).stdout  # noqa: E731
    for name in ("terminal", "markdown", "json"):
        assert form(elsewhere, name) == form(TRAINING, name)
        assert str(tmp_path).encode() not in form(elsewhere, name)


def test_the_next_command_is_told_in_the_readers_language() -> None:
    assert "下一步：traceanalyzer report" in call("report", TRAINING, "--lang", "zh").err


@pytest.mark.parametrize(
    ("options", "is_of_screen"),
    [((), True), (("--top", "3"), True), (("--format", "json"), False), (("--card", "card.svg"), False)],
    ids=["screen", "top", "json", "card"],
)
def test_only_the_first_screen_alone_does_without_what_files_show(
    options: tuple[str, ...], is_of_screen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(*given: Any, for_screen: bool) -> Report:
        asked.append(for_screen)
        return pipeline.report_on(*given, for_screen=for_screen)

    monkeypatch.setattr(report, "report_on", noted)
    monkeypatch.chdir(tmp_path)
    assert call("report", TRAINING, *options).code == 0
    assert asked == [is_of_screen]
