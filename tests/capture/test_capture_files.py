"""Files of a capture are whole, keep their facts, and never take another one's place."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.capture.agent import tracefile
from traceanalyzer.capture.agent.settings import Settings, decode

RAW = '{\n  "schemaVersion": 1,\n  "traceEvents": [\n{"cat": "cpu_op", "name": "/a/b/c"}\n]}\n'


def written(folder: Path, facts: dict[str, Any], text: str = RAW) -> Path:
    raw, trace = folder / "raw.json", folder / "packed"
    raw.write_text(text, encoding="utf-8")
    assert tracefile.write_trace(raw, trace, facts, lambda line: line.replace(b"/a/b/", b""))
    return trace


def content(trace: Path) -> Any:
    return json.loads(gzip.decompress(trace.read_bytes()))


def test_facts_come_first_and_the_rest_is_cleaned(tmp_path: Path) -> None:
    found = content(written(tmp_path, {"version": 1, "text": 'a "quote" /a/b/x'}))
    assert list(found) == ["traceanalyzer", "schemaVersion", "traceEvents"]
    assert found["traceanalyzer"] == {"version": 1, "text": 'a "quote" x'}
    assert found["traceEvents"][0]["name"] == "c"


@pytest.mark.parametrize("before", ["", "\n  ", "\n\n"], ids=["nothing", "as-on-a-gpu", "lines"])
def test_what_comes_before_the_object_does_not_break_it(before: str, tmp_path: Path) -> None:
    """The profiler begins the trace of a program on a GPU with an empty line."""
    found = content(written(tmp_path, {"version": 1}, before + RAW))
    assert list(found) == ["traceanalyzer", "schemaVersion", "traceEvents"]


def test_facts_can_be_replaced_and_nothing_else_changes(tmp_path: Path) -> None:
    trace = written(tmp_path, {"version": 1})
    before = content(trace)
    tracefile.replace_facts(trace, {"version": 1, "more": [1, 2]})
    assert content(trace) == before | {"traceanalyzer": {"version": 1, "more": [1, 2]}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "raw.json"]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert written(tmp_path / "one", {}).read_bytes() == written(tmp_path / "two", {}).read_bytes()


def test_a_trace_without_work_is_told(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    raw.write_text('{\n"traceEvents": []}')
    assert not tracefile.write_trace(raw, tmp_path / "packed", {}, bytes)


def test_a_name_that_is_taken_is_never_overwritten(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        temporary = tmp_path / f".{number}"
        temporary.write_text(str(number))
        names.append(tracefile.publish(temporary, tmp_path, "trace", ".json.gz").name)
    assert names == ["trace.json.gz", "trace-2.json.gz", "trace-3.json.gz"]
    assert [(tmp_path / name).read_text() for name in names] == ["0", "1", "2"]


@pytest.mark.parametrize("has_hard_links", [True, False])
@pytest.mark.parametrize("leads_somewhere", [True, False])
def test_a_link_in_the_folder_is_never_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_hard_links: bool, leads_somewhere: bool
) -> None:
    """Somebody else may put a link with the name of a trace into a folder that several people share."""
    folder, victim = tmp_path / "out", tmp_path / "victim"
    folder.mkdir()
    if leads_somewhere:
        victim.write_text("precious")
    (folder / "trace.json.gz").symlink_to(victim)

    def refused(*_: object) -> None:
        raise PermissionError("no hard links here")

    if not has_hard_links:
        monkeypatch.setattr(os, "link", refused)
    (folder / ".new").write_text("a trace")
    assert tracefile.publish(folder / ".new", folder, "trace", ".json.gz").name == "trace-2.json.gz"
    assert (folder / "trace.json.gz").is_symlink()
    assert not victim.exists() or victim.read_text() == "precious"


def test_a_link_at_a_temporary_name_is_no_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "packed").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        written(tmp_path, {})
    assert not (tmp_path / "victim").exists()


def test_a_name_holds_the_rank_and_the_time_in_utc() -> None:
    assert tracefile.stem(3, 0) == "trace_rank3_19700101T000000Z"


def test_settings_survive_the_environment() -> None:
    settings = Settings(folder="out", steps=2, with_stack=True, project="/work")
    assert decode(settings.encode()) == settings


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"unheard": 1}'])
def test_settings_of_something_else_are_none(text: str | None) -> None:
    assert decode(text) is None


@pytest.mark.parametrize(("settings", "skipped"), [(Settings("x", warmup=0), 1), (Settings("x", warmup=3, wait=2), 5)])
def test_at_least_one_step_shows_where_steps_end(settings: Settings, skipped: int) -> None:
    assert settings.skipped == skipped
