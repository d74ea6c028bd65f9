"""The script that compares what two versions wrote finds every difference but wording and version."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scripts import compare_reports
from tests.formats.samples import TRAINING, report_of
from traceanalyzer.formats import render, workbook


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the report of one fixture."""
    text = render(report_of(TRAINING), "json")
    found = tmp_path / "before", tmp_path / "after"
    for folder in found:
        folder.mkdir()
        (folder / "training.json").write_text(text, "utf-8")
    return found


def change(folder: Path, how: Callable[[Any], Any]) -> None:
    path = folder / "training.json"
    document = json.loads(path.read_text("utf-8"))
    how(document)
    path.write_text(json.dumps(document), "utf-8")


def run(folders: tuple[Path, Path], *options: str) -> int:
    return compare_reports.main([*map(str, folders), *options])


def test_equal_reports_are_equal(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folders) == 0
    assert capsys.readouterr().out == "1 files, 0 of them differ\n"


def reword(document: Any) -> None:
    document["generator"]["version"] = "9.9"
    document["findings"][0]["title"]["text"] = "Other words."


def test_wording_and_version_may_differ(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    change(folders[1], reword)
    assert run(folders) == 0
    assert run(folders, "--texts") == 1
    assert '"Other words." after' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (lambda d: d["trace"].update(events=3), "training.json: trace.events: 1664 before, 3 after"),
        (lambda d: d["trace"].pop("rank"), "training.json: trace.rank: null before, nothing after"),
        (lambda d: d["trace"].update(new=True), "training.json: trace.new: nothing before, true after"),
        (lambda d: d["findings"].pop(), "training.json: findings: has "),
        (lambda d: d["findings"][0].update(rule="x"), "training.json: findings[0].rule: "),
        (lambda d: d["trace"].update(events=1664.0), "training.json: trace.events: 1664 before, 1664.0 after"),
        (lambda d: d.update(schema_version=d.pop("schema_version")), "training.json: is written differently"),
        (lambda d: d["generator"].update(name="x"), 'training.json: generator.name: "traceanalyzer" before'),
    ],
)
def test_everything_else_may_not(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str], how: Any, found: str
) -> None:
    change(folders[1], how)
    assert run(folders) == 1
    assert found in capsys.readouterr().out


def test_a_report_that_is_only_in_one_folder_differs(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (folders[0] / "more.json").write_text("{}", "utf-8")
    assert run(folders) == 1
    assert f"more.json: is not in {folders[1]}" in capsys.readouterr().out


def test_nothing_to_compare_is_no_proof(tmp_path: Path) -> None:
    assert run((tmp_path, tmp_path)) == 1


def test_what_is_compared_is_left_as_it_was() -> None:
    document = {"generator": {"version": "1"}, "message": {"id": "a", "params": {"text": 3}, "text": "b"}}
    before = copy.deepcopy(document)
    found = compare_reports.masked(document)
    assert document == before
    assert found["message"] == {"id": "a", "params": {"text": 3}, "text": compare_reports.MASK}


def test_layout_counts_with_the_wording(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    change(folders[1], lambda document: None)
    assert run(folders) == 0
    assert run(folders, "--texts") == 1
    assert "training.json: is written differently" in capsys.readouterr().out


def write(folders: tuple[Path, Path], name: str, before: bytes, after: bytes) -> None:
    for folder, content in zip(folders, (before, after), strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"<!-- traceanalyzer report 0.1.0 -->", b"<!-- traceanalyzer report 0.2.0.dev1 -->"),
        (b"<footer><p>traceanalyzer 0.1.0</p>", b"<footer><p>traceanalyzer 0.10.0</p>"),
        (b'"semanticVersion": "0.1.0"', b'"semanticVersion": "0.2.0"'),
        (b'{"exporter":"traceanalyzer@0.1.0"}', b'{"exporter":"traceanalyzer@0.2.0"}'),
    ],
)
@pytest.mark.parametrize("name", ["a.md", "below/two/a.json"])
def test_the_version_may_differ_in_every_format(
    folders: tuple[Path, Path], name: str, before: bytes, after: bytes
) -> None:
    write(folders, name, before, after)
    assert run(folders) == 0


def test_a_version_of_something_else_may_not(folders: tuple[Path, Path]) -> None:
    write(folders, "a.sarif", b'{"version": "2.1.0"}', b'{"version": "2.2.0"}')
    assert run(folders) == 1


@pytest.mark.parametrize("format_", ["markdown", "html", "sarif", "terminal", "json"])
def test_what_the_program_writes_differs_by_no_version(folders: tuple[Path, Path], format_: str) -> None:
    report = report_of(TRAINING)
    later = msgspec.structs.replace(report, generator=msgspec.structs.replace(report.generator, version="77.1"))
    write(folders, "a.txt", *(render(one, format_).encode() for one in (report, later)))
    write(folders, "a.xlsx", *(workbook.workbook(one) for one in (report, later)))
    assert run(folders) == 0


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (b"one\ntwo\n", b"one\nthree\n", 'file: line 2: "two\\n" before, "three\\n" after'),
        (b"one\n", b"one\ntwo\n", 'file: line 2: nothing before, "two\\n" after'),
        (b"one\n", b"one", 'file: line 1: "one\\n" before, "one" after'),
        (b"one\r\n", b"one\n", 'file: line 1: "one\\r\\n" before, "one\\n" after'),
        (b"a" * 500 + b"b", b"a" * 500 + b"c", 'aaab" before, "...aaa'),
        (b"\x00abc", b"\x00abd", "file: differs from byte 3 on; 4 bytes before, 4 after"),
        (b"\x00abc", b"\x00ab", "file: differs from byte 3 on; 4 bytes before, 3 after"),
        (b"\xff", b"abc", "file: differs from byte 0 on; 1 bytes before, 3 after"),
    ],
)
def test_of_other_files_the_first_difference_is_shown(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str], before: bytes, after: bytes, shown: str
) -> None:
    write(folders, "below/file", before, after)
    assert run(folders) == 1
    assert shown in capsys.readouterr().out


def test_a_file_below_that_is_only_in_one_folder_differs(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write((folders[0], folders[0]), "tables/a.csv", b"", b"")
    assert run(folders) == 1
    assert f"tables/a.csv: is not in {folders[1]}" in capsys.readouterr().out


def test_a_json_file_that_is_none_is_compared_as_text(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folders, "a.json", b"{", b"{}")
    assert run(folders) == 1
    assert 'a.json: line 1: "{" before, "{}" after' in capsys.readouterr().out


def packed(path: Path, members: dict[str, str], minute: int) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, minute, 0)), text)


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        ({"sheet1.xml": "one", "core.xml": "traceanalyzer 0.2"}, None),
        ({"core.xml": "traceanalyzer 0.1", "sheet1.xml": "one"}, "a.xlsx: has its members in another order"),
        ({"sheet1.xml": "one"}, "a.xlsx: core.xml: is not in the one after"),
        ({"sheet1.xml": "one", "core.xml": "traceanalyzer 0.1", "x": ""}, "a.xlsx: x: is not in the one before"),
        (
            {"sheet1.xml": "two", "core.xml": "traceanalyzer 0.1"},
            'a.xlsx: sheet1.xml: line 1: "one" before, "two" after',
        ),
    ],
)
def test_of_a_spreadsheet_the_members_are_compared(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str], after: dict[str, str], shown: str | None
) -> None:
    packed(folders[0] / "a.xlsx", {"sheet1.xml": "one", "core.xml": "traceanalyzer 0.1"}, 1)
    packed(folders[1] / "a.xlsx", after, 2)
    assert run(folders) == (1 if shown else 0)
    assert (shown or "2 files, 0 of them differ") in capsys.readouterr().out


def test_a_spreadsheet_that_is_none_is_compared_as_bytes(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folders, "a.xlsx", b"PK\x03", b"PK\x04")
    assert run(folders) == 1
    assert "a.xlsx: line 1: " in capsys.readouterr().out
