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
