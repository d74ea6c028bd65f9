"""`diff` of two memory snapshots, in every format, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.memory_snapshot import FORWARD, MIB, TRAIN, MemoryRecorder
from tests.cli.running import assert_one_line, call

LOG = (("/home/me/train.py", 33, "log"), *TRAIN)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    files = []
    for name, logged in (("before", 0), ("after", 20)):
        memory = MemoryRecorder()
        memory.alloc(30 * MIB)
        memory.alloc(12 * MIB, FORWARD)
        if logged:
            memory.alloc(logged * MIB, LOG)
        files.append(str(memory.write(tmp_path / f"{name}.pickle")))
    return files[0], files[1]


def test_on_the_screen(pair: tuple[str, str]) -> None:
    result = call("diff", *pair)
    assert result.code == 0
    said = " ".join(result.out.split())
    assert "The peak of GPU0 went from 42 MiB to 62 MiB; me/train.py:33 changed most, from 0 B to 20 MiB." in said
    assert "+20.00 MiB" in said
    assert "No rule found" not in said


def test_files(pair: tuple[str, str], tmp_path: Path) -> None:
    for suffix in ("md", "html", "json"):
        target = tmp_path / f"grown.{suffix}"
        assert call("diff", *pair, "-o", str(target)).code == 0
        assert "log" in target.read_text("utf-8")
    saved = json.loads((tmp_path / "grown.json").read_text("utf-8"))
    assert saved["source"]["format"] == "memory_snapshots"
    assert saved["analyses"]["memory_change"]["devices"][0]["lines"][0]["head_bytes"] == 20 * MIB
    assert "went from 42 MiB" in call("render", str(tmp_path / "grown.json")).out


def test_in_other_languages(pair: tuple[str, str]) -> None:
    assert "Пик GPU0 был" in call("diff", *pair, "--lang", "ru").out
    assert "GPU0 的峰值从" in call("diff", *pair, "--lang", "zh").out


def test_a_snapshot_and_something_else(pair: tuple[str, str], tmp_path: Path) -> None:
    other = tmp_path / "notes.md"
    other.write_text("nothing", "utf-8")
    result = call("diff", pair[0], str(other))
    assert result.code == 2
    assert "name two of them" in assert_one_line(result)


@pytest.mark.parametrize("option", [("--fail-on-regression", "3%"), ("--steps", "1"), ("--story",)])
def test_what_is_about_steps(pair: tuple[str, str], option: tuple[str, ...]) -> None:
    result = call("diff", *pair, *option)
    assert result.code == 2
    assert "is about steps, which memory snapshots do not have" in assert_one_line(result)


def test_saved_reports_are_sides(pair: tuple[str, str], tmp_path: Path) -> None:
    saved = str(tmp_path / "before.json")
    assert call("report", pair[0], "-o", saved).code == 0
    for sides in ((saved, pair[1]), (saved, saved)):
        assert call("diff", *sides).code == 0
    assert "went from 42 MiB to 62 MiB" in " ".join(call("diff", saved, pair[1]).out.split())


def test_urls_are_sides(pair: tuple[str, str], tmp_path: Path) -> None:
    given = [f"file://{file}" for file in pair]
    assert "went from 42 MiB to 62 MiB" in " ".join(call("diff", *given).out.split())


def test_two_dumps_without_a_history_have_no_peak(tmp_path: Path) -> None:
    files = []
    for number in (1, 3):
        memory = MemoryRecorder(ring=0)
        for _ in range(number):
            memory.alloc(5 * MIB, FORWARD)
        files.append(memory.write(tmp_path / f"{number}.pickle"))
    said = " ".join(call("diff", *files).out.split())
    assert "What GPU0 holds at the dump went from 5.0 MiB to 15 MiB; me/model.py:30 changed most" in said
    assert "Neither snapshot has a history" in said
    assert "peak" not in said.lower()
