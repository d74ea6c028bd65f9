"""What was saved is read the same way by every command, and differences render like reports."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.cli.running import FIXTURES, assert_one_line, call
from traceanalyzer.formats.difference import FORMATS
from traceanalyzer.inputs import saved_reports

TRAINING = FIXTURES / "synthetic" / "ddp_nccl.json.gz"
"""One rank of several, so that every command has a use for it."""
MARK = b"\xef\xbb\xbf"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved report and a saved difference, each with and without a byte order mark."""
    path = tmp_path_factory.mktemp("saved")
    assert call("report", TRAINING, "-o", path / "report.json", "-q").code == 0
    assert call("diff", TRAINING, TRAINING, "-o", path / "diff.json", "-q").code == 0
    for name in ("report", "diff"):
        (path / f"{name}_marked.json").write_bytes(MARK + (path / f"{name}.json").read_bytes())
    return path


@pytest.mark.parametrize("command", ["render", "diff", "ranks"])
def test_a_byte_order_mark_changes_nothing(folder: Path, command: str) -> None:
    plain, marked = (
        call(command, *[folder / f"{name}.json"] * (2 if command == "diff" else 1), "-q", "--format", "json")
        for name in ("report", "report_marked")
    )
    assert (marked.code, marked.err) == (0, "")
    assert marked.stdout == plain.stdout


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("lang", ["en", "ru", "zh"])
@pytest.mark.parametrize("name", ["diff", "diff_marked"])
def test_a_saved_difference_is_the_same_as_the_direct_one(folder: Path, name: str, form: str, lang: str) -> None:
    direct = call("diff", TRAINING, TRAINING, "-q", "--format", form, "--lang", lang)
    later = call("render", folder / f"{name}.json", "-q", "--format", form, "--lang", lang)
    assert (later.code, later.err) == (0, "")
    assert later.stdout == direct.stdout


def test_a_difference_is_written_to_files(folder: Path, tmp_path: Path) -> None:
    run = call("render", folder / "diff.json", "-o", tmp_path / "d.md", "-o", tmp_path / "d.json")
    assert run.code == 0
    assert run.err.count("Wrote ") == 2
    assert (tmp_path / "d.md").read_bytes().startswith(b"<!-- traceanalyzer diff")
    assert (tmp_path / "d.json").read_bytes() == (folder / "diff.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (("--format", "sarif"), "a difference has no format sarif"),
        (("-o", "d.md", "--assets", "charts"), "has no charts"),
    ],
    ids=["sarif", "charts"],
)
def test_what_differences_do_not_have_is_one_line(folder: Path, options: tuple[str, ...], wrong: str) -> None:
    assert wrong in assert_one_line(call("render", folder / "diff.json", *options))


@pytest.mark.parametrize("command", ["diff", "ranks"])
def test_a_difference_is_no_side_and_no_rank(folder: Path, command: str) -> None:
    second = (TRAINING,) if command == "diff" else ()
    assert "is a saved difference" in assert_one_line(call(command, folder / "diff.json", *second, "-q"))


@pytest.mark.parametrize("name", ["diff", "report"])
def test_what_is_not_whole_is_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    data = (folder / f"{name}.json").read_bytes()
    path = tmp_path / "x.json"
    changed = {key: value for key, value in json.loads(data).items() if key not in ("verdict", "headlines")}
    for wrong in (data[: len(data) // 2], json.dumps(changed).encode(), data.replace(b'_version": 1', b'_version": 9')):
        path.write_bytes(wrong)
        assert_one_line(call("render", path))


@pytest.mark.parametrize("command", ["render", "diff", "ranks"])
def test_an_analysis_of_another_kind_is_one_line(folder: Path, tmp_path: Path, command: str) -> None:
    report = json.loads((folder / "report.json").read_bytes())
    report["analyses"] = {key: {"rows": 3} for key in report["analyses"]}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(report))
    second = (path,) if command == "diff" else ()
    assert_one_line(call(command, path, *second, "-q"))


@pytest.mark.parametrize("command", ["render", "diff", "ranks"])
def test_what_is_larger_than_any_report_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(saved_reports, "_LARGEST", 5000)
    second = (TRAINING,) if command == "diff" else ()
    assert "is too large for a report" in assert_one_line(call(command, folder / "report.json", *second, "-q"))


def test_the_two_kinds_are_told_apart(folder: Path) -> None:
    for name, field in (("report", "source"), ("diff", "verdict")):
        assert field in msgspec.json.decode((folder / f"{name}.json").read_bytes())
