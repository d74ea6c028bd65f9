"""Where a report goes: files by suffix, standard output, and places that refuse it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.running import FIXTURES, PROGRAM, TRAINING, Run, assert_one_line, call, spawn

FOREIGN = "# My notes\n"
SMALL = FIXTURES / "synthetic" / "cpu_only.json"


def file_of(folder: Path, name: str, *arguments: str) -> str:
    """What the command writes to a file."""
    run = call("report", TRAINING, "-o", folder / name, *arguments)
    assert (run.code, run.out) == (0, "")
    return (folder / name).read_text("utf-8")


def test_the_suffix_is_the_format(tmp_path: Path) -> None:
    run = call("report", TRAINING, "-o", tmp_path / "x.md", "-o", tmp_path / "x.json")
    assert (run.code, run.out) == (0, "")
    assert run.err.splitlines() == [f"Wrote {tmp_path / 'x.md'}", f"Wrote {tmp_path / 'x.json'}"]
    assert (tmp_path / "x.md").read_text("utf-8").startswith("<!-- traceanalyzer report")
    assert json.loads((tmp_path / "x.json").read_bytes())["generator"]["name"] == "traceanalyzer"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.json", "x.md"]


@pytest.mark.parametrize("name", ["x.markdown", "X.MD", "a.b.md"])
def test_suffixes_have_no_case_and_two_spellings(name: str, tmp_path: Path) -> None:
    assert "\n## ⏱️ Waiting for data: " in file_of(tmp_path, name)


@pytest.mark.parametrize("name", ["x", "x.docx", "x.", ".md", "x.md.bak", "json"])
def test_an_unknown_suffix_is_a_usage_error(name: str, tmp_path: Path) -> None:
    line = assert_one_line(call("report", TRAINING, "-o", tmp_path / name))
    assert ".md" in line
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_if_one_of_several_names_is_wrong(tmp_path: Path) -> None:
    assert_one_line(call("report", TRAINING, "-o", tmp_path / "x.md", "-o", tmp_path / "x.docx"))
    assert not list(tmp_path.iterdir())


def test_format_helps_where_no_suffix_says_it(tmp_path: Path) -> None:
    assert "\n## ⏱️ Waiting for data: " in file_of(tmp_path, "report.txt", "--format", "markdown")
    assert json.loads(file_of(tmp_path, "report", "--format", "json"))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("x.json", "markdown"),
        ("x.md", "json"),
        ("x.html", "csv"),
        ("x.csv", "csv"),
        ("x.XLSX", "html"),
        ("x.md", "xlsx"),
    ],
)
def test_a_suffix_of_another_format_is_refused(name: str, form: str, tmp_path: Path) -> None:
    line = assert_one_line(call("report", TRAINING, "-o", tmp_path / name, "--format", form))
    assert f"--format {form}" in line
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["zz.html", "zz.md"])
def test_no_folder_has_the_name_of_a_page(name: str, tmp_path: Path) -> None:
    assert_one_line(call("report", TRAINING, "-o", tmp_path / "tables", "-o", tmp_path / name, "--format", "csv"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "form"),
    [("x.txt", "terminal"), ("x.json", "sarif"), ("x.json", "speedscope"), ("x.v2", "json"), ("x", "html")],
)
def test_format_says_what_a_suffix_leaves_open(name: str, form: str, tmp_path: Path) -> None:
    assert file_of(tmp_path, name, "--format", form)


def test_one_format_for_all(tmp_path: Path) -> None:
    run = call("report", TRAINING, "--format", "json", "-o", "-", "-o", tmp_path / "x")
    assert run.code == 0
    assert run.stdout == (tmp_path / "x").read_bytes()


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_standard_output_by_name(form: str) -> None:
    run = call("report", TRAINING, "--format", form, "-o", "-")
    assert (run.code, run.err) == (0, "")
    assert run.out == call("report", TRAINING, "--format", form).out
    assert "DataLoader" in run.out


def test_standard_output_has_no_suffix() -> None:
    assert "--format" in assert_one_line(call("report", TRAINING, "-o", "-"))


@pytest.mark.parametrize(("form", "suffix"), [("markdown", "md"), ("json", "json")])
def test_screen_and_file_hold_the_same(form: str, suffix: str, tmp_path: Path) -> None:
    text = file_of(tmp_path, f"x.{suffix}")
    assert call("report", TRAINING, "--format", form).out == text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_top_applies_to_the_file(tmp_path: Path) -> None:
    assert "3 of " in file_of(tmp_path, "x.md", "--top", "3")


# What is already there


@pytest.mark.parametrize("name", ["x.md", "x.json"])
def test_our_own_report_is_overwritten(name: str, tmp_path: Path) -> None:
    whole = file_of(tmp_path, name)
    assert file_of(tmp_path, name, "--steps", "4") != whole
    assert file_of(tmp_path, name) == whole


def test_a_foreign_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(FOREIGN)
    line = assert_one_line(call("report", TRAINING, "-o", tmp_path / "notes.md"))
    assert "--force" in line
    assert "notes.md" in line
    assert (tmp_path / "notes.md").read_text() == FOREIGN


def test_force_overwrites_a_foreign_file(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(FOREIGN)
    assert "\n## ⏱️ Waiting for data: " in file_of(tmp_path, "notes.md", "--force")


def test_the_trace_itself_is_not_overwritten(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(TRAINING.read_bytes())
    assert_one_line(call("report", trace, "-o", trace))
    assert trace.read_bytes() == TRAINING.read_bytes()


# Places that refuse a report


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    line = assert_one_line(call("report", TRAINING, "-o", tmp_path / "no" / "x.md"))
    assert f"x.md: cannot be written: there is no folder {tmp_path / 'no'}; create it" in line


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.md").mkdir()
    assert "directory" in assert_one_line(call("report", TRAINING, "-o", tmp_path / "x.md"))
    assert_one_line(call("report", TRAINING, "-o", tmp_path, "--format", "json", "--force"))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert_one_line(call("report", TRAINING, "-o", tmp_path / "file" / "x.md"))


def test_an_output_name_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    assert_one_line(call("report", TRAINING, "-o", tmp_path / f"{'a' * 300}.md"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", TRAINING),
        ("report", TRAINING, "--format", "markdown"),
        ("report", TRAINING, "--format", "json", "-o", "-"),
        ("--help",),
        ("report", "--help"),
        ("--version",),
    ],
    ids=lambda arguments: " ".join(str(getattr(word, "name", word)) for word in arguments),
)
class TestStandardOutputRefuses:
    def test_a_full_disk_is_one_line(self, arguments: tuple[str | Path, ...]) -> None:
        full = os.open("/dev/full", os.O_WRONLY)
        try:
            run = spawn(*arguments, stdout=full)
        finally:
            os.close(full)
        line = assert_one_line(run)
        assert "standard output" in line
        assert "No space left on device" in line

    def test_a_closed_pipe_is_silence(self, arguments: tuple[str | Path, ...]) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            run = spawn(*arguments, stdout=writer)
        finally:
            os.close(writer)
        assert (run.code, run.err) == (0, "")

    def test_a_closed_standard_output_is_no_traceback(self, arguments: tuple[str | Path, ...]) -> None:
        without_output = ("sh", "-c", 'exec "$@" >&-', "sh")
        run = spawn(*arguments, program=(*without_output, *PROGRAM))
        if run.code:
            assert_one_line(run)
        else:
            assert "Traceback" not in run.err


def test_a_reader_that_stops_after_one_line_is_no_error() -> None:
    first_line = ("sh", "-c", '"$@" | head -n 1', "sh", *PROGRAM)
    run = spawn("report", TRAINING, "--format", "json", program=first_line)
    assert (run.code, run.out, run.err) == (0, "{\n", "")


def test_a_closed_standard_error_changes_nothing_else() -> None:
    without_errors = ("sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM)
    assert spawn("report", SMALL, program=without_errors) == spawn("report", SMALL, "-q")
    assert spawn("report", "no.json", program=without_errors) == Run(2, b"", b"")


def test_files_are_written_although_standard_output_is_closed(tmp_path: Path) -> None:
    without_output = ("sh", "-c", 'exec "$@" >&-', "sh")
    run = spawn("report", TRAINING, "-o", tmp_path / "x.json", program=(*without_output, *PROGRAM))
    assert run == Run(0, b"", f"Wrote {tmp_path / 'x.json'}\n".encode())
    assert json.loads((tmp_path / "x.json").read_bytes())


def test_a_pipe_with_a_name_is_written_to(tmp_path: Path) -> None:
    """Output to a pipe, as with `-o >(command)` of a shell."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    both_ends = os.open(pipe, os.O_RDWR)
    try:
        run = spawn("report", SMALL, "--quiet", "--format", "markdown", "-o", pipe, patience_s=20)
        received = os.read(both_ends, 65_536) if run.code == 0 else b""
    finally:
        os.close(both_ends)
    assert (run.code, run.err) == (0, "")
    assert received == call("report", SMALL, "--format", "markdown").stdout
    assert pipe.is_fifo()
