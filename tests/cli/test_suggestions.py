"""A call that cannot be right is answered with the one that was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call
from traceanalyzer.cli import COMMANDS


def trace() -> TraceBuilder:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.op("aten::relu", 0, 50)
    return builder


def ranks_in(folder: Path) -> None:
    folder.mkdir()
    for rank, one in enumerate(run(2, [Meeting(lambda rank, step: 1000 + 100 * rank)])):
        one.write(folder / f"rank{rank}.json")


# No command, or none that exists


@pytest.mark.parametrize("name", ["trace.json.gz", "runs/trace.json", "profile.tmp", "-"])
def test_a_file_in_place_of_a_command_is_for_report(name: str) -> None:
    assert f"Did you mean `traceanalyzer report {name}`?" in assert_one_line(call(name))


def test_a_file_that_exists_needs_no_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reporting").write_text("{}")
    assert "Did you mean `traceanalyzer report reporting`?" in assert_one_line(call("reporting"))


def test_options_stay_in_the_suggestion() -> None:
    line = assert_one_line(call("my trace.json", "-o", "x.html"))
    assert "`traceanalyzer report 'my trace.json' -o x.html`" in line


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("reprot", "report"), ("Report", "report"), ("anonymise", "anonymize"), ("dif", "diff"), ("rank", "ranks")],
)
def test_a_mistyped_command_names_the_nearest(typed: str, meant: str) -> None:
    line = assert_one_line(call(typed, "trace.json.gz", "--top", "3"))
    assert line == (
        f"traceanalyzer: {typed}: no such command. Did you mean `traceanalyzer {meant} trace.json.gz --top 3`?\n"
    )


def test_a_word_that_is_near_nothing_lists_all() -> None:
    line = assert_one_line(call("frobnicate"))
    assert all(name in line for name in COMMANDS)
    assert "Did you mean" not in line


def test_an_option_before_the_command() -> None:
    assert "options follow a command: traceanalyzer report" in assert_one_line(call("-o", "x.html", "trace.json"))


def test_hostile_and_long_words_stay_short() -> None:
    line = assert_one_line(call("reprot", "\x1b[31m\n", *(f"file{number}.json" for number in range(500))))
    assert len(line) < 400
    assert line.rstrip().endswith("...`?")


def test_help_is_named_for_the_command() -> None:
    assert "(see traceanalyzer diff --help)" in assert_one_line(call("diff", "a.json", "b.json", "--bogus"))


# Several inputs


def test_two_files_name_the_commands_for_several() -> None:
    for line in (assert_one_line(call("report", "a.gz", "b.gz")), assert_one_line(call("a.gz", "b.gz"))):
        assert "`traceanalyzer diff a.gz b.gz` compares two" in line
        assert "`traceanalyzer batch a.gz b.gz -o reports/`" in line
        assert "`traceanalyzer ranks a.gz b.gz`" in line


def test_many_files_do_not_pretend_that_diff_takes_them() -> None:
    line = assert_one_line(call("report", "a.gz", "b.gz", "c.gz"))
    assert "3 are given" in line
    assert "traceanalyzer diff" not in line
    assert "diff compares two" in line


# Folders


def test_a_folder_with_one_trace_is_that_trace(tmp_path: Path) -> None:
    trace().write(tmp_path / "trace.json")
    (tmp_path / "notes.txt").write_text("no table in here")
    (tmp_path / "settings.json").write_text('{"lr": 1}')
    of_folder = call("report", tmp_path, "-q")
    assert (of_folder.code, of_folder.err) == (0, "")
    assert of_folder.out == call("report", tmp_path / "trace.json", "-q").out


def test_a_folder_with_one_text_is_that_text(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes((FIXTURES / "key_averages" / "article.md").read_bytes())
    assert call("report", tmp_path, "-q").out == call("report", tmp_path / "notes.md", "-q").out


def test_a_folder_with_the_ranks_of_a_run_is_that_run(tmp_path: Path) -> None:
    ranks_in(tmp_path / "run")
    options = ("-q", "--format", "json", "-o", "-")
    of_folder = call("report", tmp_path / "run", *options)
    assert (of_folder.code, of_folder.err) == (0, "")
    assert of_folder.stdout == call("ranks", tmp_path / "run", *options).stdout


def test_a_report_beside_its_trace_is_no_second_trace(tmp_path: Path) -> None:
    trace().write(tmp_path / "trace.json")
    assert call("report", tmp_path, "-q", "-o", tmp_path / "trace.report.json").code == 0
    assert call("report", tmp_path, "-q").code == 0


def test_a_folder_with_several_runs_names_batch_and_ranks(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        trace().write(tmp_path / name)
    ranks_in(tmp_path / "run")
    line = assert_one_line(call("report", tmp_path))
    assert "contains 3 runs (a.json, b.json, run/" in line
    assert f"`traceanalyzer batch {tmp_path} -o reports/`" in line
    assert "traceanalyzer ranks" in line


def test_a_folder_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no table in here")
    assert "contains no trace (.json, .json.gz), no text with a profiler table, no compile log" in assert_one_line(
        call("report", tmp_path)
    )


def test_a_table_is_not_made_of_a_run(tmp_path: Path) -> None:
    ranks_in(tmp_path / "run")
    line = assert_one_line(call("report", tmp_path / "run", "-q", "-o", tmp_path / "x.txt"))
    assert "contains several ranks, but a table (.txt) is made of one trace; name the file of one rank" in line


def test_an_empty_name_is_no_folder() -> None:
    assert "runs" not in assert_one_line(call("report", ""))


def test_a_saved_difference_is_for_render(tmp_path: Path) -> None:
    file = tmp_path / "diff.json"
    assert call("diff", TRAINING, TRAINING, "-q", "-o", file).code == 0
    assert f"Did you mean `traceanalyzer render {file}`?" in assert_one_line(call("report", file))


# Formats


def test_an_unknown_suffix_lists_every_one_of_the_command() -> None:
    line = assert_one_line(call("report", TRAINING, "-o", "x.foo"))
    assert (
        "x.foo: no format here has the suffix .foo; use one of .md, .markdown, .html, .htm, .brief.json, .json" in line
    )
    assert ".txt" in line
    assert ".txt" not in assert_one_line(call("render", "report.json", "-o", "x.foo"))
    assert "use one of .md, .markdown, .html, .htm, .json, or" in assert_one_line(call("diff", "a", "b", "-o", "x.foo"))


def test_a_picture_and_a_folder_are_no_formats(tmp_path: Path) -> None:
    line = assert_one_line(call("report", TRAINING, "-o", "x.png"))
    assert "a report is no picture; report, diff and render draw one of it with --card x.png" in line
    line = assert_one_line(call("report", TRAINING, "-o", str(tmp_path)))
    assert f"is a folder; name a file in it, such as {tmp_path / 'report.md'}" in line
    line = assert_one_line(call("report", TRAINING, "-o", f"{tmp_path}/new/"))
    assert f"there is no such folder; mkdir -p {tmp_path}/new/, then name a file in it" in line
    assert f"-o {tmp_path / 'new' / 'report.md'}" in line


def test_help_lists_the_same_suffixes() -> None:
    shown = " ".join(call("report", "--help").out.split())
    assert "(.md, .markdown, .html, .htm, .brief.json, .json, .sarif, .xlsx)" in shown
