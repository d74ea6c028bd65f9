"""The option `--compile-log` of `report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import compile_log as build
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call, spawn
from tests.rules.compilation import test_graph_breaks as graph_breaks


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return graph_breaks.fires().write(tmp_path / "trace.json")


def test_line_and_reason_of_a_break_are_in_the_report(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "logs").mkdir()
    text = build.broke("0/0", "/work/train.py", 7, "Data-dependent branching")
    (tmp_path / "logs" / "torch.log").write_text(text, "utf-8")
    run = call("report", trace, "--compile-log", tmp_path / "logs", "--format", "markdown")
    assert (run.code, run.err) == (0, "")
    assert "`work/train.py:7`" in run.out
    assert "`Data-dependent branching`" in run.out


def test_damage_is_a_warning(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "torch.log").write_text(build.broke("0/0", "train.py", 7, "why") + "broken\n", "utf-8")
    run = call("report", trace, "--compile-log", tmp_path / "torch.log", "--format", "json")
    warnings = {warning["id"]: warning["message"]["text"] for warning in json.loads(run.out)["warnings"]}
    assert "line 7" in warnings["read-compile-log-damaged"]


@pytest.mark.parametrize("content", [None, "hello\n"])
def test_a_log_that_cannot_be_used(tmp_path: Path, trace: Path, content: str | None) -> None:
    log = tmp_path / "torch.log"
    if content is not None:
        log.write_text(content, "utf-8")
    assert_one_line(spawn("report", trace, "--compile-log", log))


def test_a_log_explains_neither_tables_nor_saved_reports(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "torch.log").write_text(build.broke("0/0", "train.py", 7, "why"), "utf-8")
    assert call("report", trace, "-o", tmp_path / "saved.json").code == 0
    table = next(iter(sorted((FIXTURES / "key_averages").glob("*.txt"))))
    for given in (table, tmp_path / "saved.json"):
        run = call("report", given, "--compile-log", tmp_path / "torch.log")
        assert run.code == 2
        assert "a compile log explains only a trace" in run.err


def test_a_training_without_compiled_code_is_explained_by_nothing(tmp_path: Path) -> None:
    run = call("report", TRAINING, "--format", "json")
    assert {"compilation"} <= {skipped["id"] for skipped in json.loads(run.out)["skipped"]}


def log_of_a_program() -> str:
    """Two functions, of which the first breaks and is compiled again, and the last is not finished."""
    stack = [(0, 40, "main")]
    text = build.interned({0: "/work/train.py"}) + build.started("0/0", stack)
    text += build.broke("0/0", "/work/train.py", 9, "Data-dependent branching")
    text += build.entry("artifact", {"name": "fx_graph_cache_miss"}, "0/0", '{"key": "f", "time_taken_ns": 500000000}')
    times = {"backend_compile_time_s": 0.75, "inductor_compile_time_s": 0.5}
    text += build.measured("0/0", "forward", "/work/train.py", 7, 1, **times)
    text += build.recompiled("0/1", "0/0: L['n'] == 3") + build.started("0/1", stack)
    return text + build.measured("0/1", "forward", "/work/train.py", 7, 0.5) + build.started("1/0", stack)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "torch.log"
    file.write_text(log_of_a_program(), "utf-8")
    return file


def test_a_log_alone_is_reported_on(log: Path) -> None:
    run = call("report", log, "--top", "5")
    assert run.code == 0
    for words in (
        "3 compilations took 1.5 s: Inductor 500 ms (33 %), Dynamo 250 ms (17 %)",
        "The longest is work/train.py:7",
        "Graph breaks: 1. The first is at work/train.py:9: Data-dependent branching.",
        "because this did not hold: L['n'] == 3.",
        "Graphs that the cache fx_graph did not have: 1 of 1.",
        "which may be cut: 1",
    ):
        assert words in " ".join(run.out.split())


@pytest.mark.parametrize(
    ("language", "words"), [("en", "3 compilations took"), ("ru", "3 компиляции заняли"), ("zh", "3 次编译共用时")]
)
@pytest.mark.parametrize("form", ["markdown", "html", "terminal", "json"])
def test_in_every_format_and_language(log: Path, form: str, language: str, words: str) -> None:
    run = call("report", log, "--format", form, "-o", "-", "--lang", language)
    assert run.code == 0
    assert ("3 compilations took" if form == "json" else words) in run.out


def test_a_saved_report_of_a_log_is_the_report(log: Path, tmp_path: Path) -> None:
    assert call("report", log, "-o", tmp_path / "saved.json").code == 0
    saved = json.loads((tmp_path / "saved.json").read_text("utf-8"))
    assert (saved["source"]["format"], saved["headlines"][0]["resources"]) == ("compile_log", None)
    assert saved["analyses"]["compilation"]["log"]["compilations"] == 3
    for form in ("markdown", "terminal"):
        assert call("render", tmp_path / "saved.json", "--format", form, "-o", "-").out == (
            call("report", log, "--format", form, "-o", "-").out
        )


def test_a_log_of_another_program_is_refused(log: Path, trace: Path) -> None:
    log.write_text(build.started("7/0") + build.measured("7/0", "f", "other.py", 1, 1), "utf-8")
    run = spawn("report", trace, "--compile-log", log)
    assert_one_line(run)
    assert b"it is of another program or process" in run.stderr


@pytest.mark.parametrize("content", ["", "2026-01-01 INFO hello\n", log_of_a_program()[:150]])
def test_what_is_no_log_is_one_line_and_a_code(tmp_path: Path, content: str) -> None:
    """An empty log, a log of another program, and one that is cut within its first entry."""
    (tmp_path / "torch.log").write_text(content[:60] if content.startswith("V") else content, "utf-8")
    assert_one_line(spawn("report", tmp_path / "torch.log"))


def test_what_needs_events_refuses_a_log(log: Path, tmp_path: Path) -> None:
    for arguments in (
        ("report", log, "--compile-log", log),
        ("report", log, "--steps", "1:2"),
        ("report", log, "-o", tmp_path / "table.txt"),
        ("diff", log, log),
        ("whatif", log),
        ("ranks", log, log),
    ):
        run = call(*arguments)
        assert (run.code, run.err.count("\n")) == (2, 1), arguments
        assert "compile log" in run.err


def test_a_folder_with_logs(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "rank_0.log").write_bytes(log.read_bytes())
    assert "3 compilations" in call("report", folder).out
    (folder / "rank_1.log").write_bytes(log.read_bytes())
    run = call("report", folder)
    assert (run.code, "contains 2 runs" in run.err) == (2, True)


def test_a_batch_says_what_it_does_with_a_log(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "torch.log").write_bytes(log.read_bytes())
    run = spawn("batch", folder, "-o", tmp_path / "reports", "--format", "json")
    assert run.code == 0
    assert b"torch.log: is a compile log, and gets a report of its own" in run.stderr
    assert b"1 analyzed, 0 failed, 0 left out" in run.stderr
    assert (tmp_path / "reports" / "torch.log.report.json").exists()
    assert "| compilation | Functions are recompiled |" in (tmp_path / "reports" / "index.md").read_text("utf-8")
