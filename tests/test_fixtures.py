"""The committed fixtures equal the output of the scripts, contain no private data, and are consistent."""

from __future__ import annotations

import gzip
import json
import re
import socket
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from tests.builders.captured import CAPTURED
from tests.builders.fixture_set import FOLDER, fixtures, readme
from tests.builders.malformed import MALFORMED, Malformed
from tests.builders.scrub import scrub, scrub_paths

ENTRIES = list(fixtures())
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.name != "README.md")

PRIVATE = [
    re.compile(pattern)
    for pattern in (
        r"/(?<![\w.]/)(?:home|root|Users|usr|tmp|opt|work|var|mnt|data|srv|etc)/",
        r":(?<=[A-Za-z]:)\\\\?\w",
        r"file://",
        r"@(?<=[\w.+-]@)[\w-]+\.\w{2,}",
        r"\"(?:host_name|username|traceName|PT_PROFILER_JOB_\w+)\"",
    )
]
"""What names a person, a machine or its folders; each begins with a character that can be searched for."""


def found_private(text: str) -> list[str]:
    """Private names in a text, each with the text around it."""
    return [text[max(0, match.start() - 20) : match.end()] for one in PRIVATE for match in one.finditer(text)]


def text_of(data: bytes) -> str:
    """Decompressed text, as far as it can be decompressed and decoded."""
    if data[:2] == b"\x1f\x8b":
        # The malformed ones store their text, so that it can be read in the file itself.
        with suppress(OSError, EOFError):
            data = gzip.decompress(data)
    return data.decode("utf-8", "replace").replace("\0", "")


# The committed files


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.path)
def test_the_committed_file_is_what_the_script_writes(entry: Any) -> None:
    path = FOLDER / entry.path
    assert path.exists(), "run: python scripts/make_fixtures.py"
    assert entry.matches(path.read_bytes()), "run: python scripts/make_fixtures.py"


def test_no_file_is_unknown_and_the_page_is_up_to_date() -> None:
    own = {path.relative_to(FOLDER).as_posix() for path in FILES if path.parent.name != "key_averages"}
    assert own == {entry.path for entry in ENTRIES}
    assert (FOLDER / "README.md").read_bytes() == readme(ENTRIES)


def test_a_changed_file_does_not_match() -> None:
    entry = next(entry for entry in ENTRIES if entry.path.endswith("gpu_training.json.gz"))
    stored = (FOLDER / entry.path).read_bytes()
    assert entry.matches(gzip.compress(gzip.decompress(stored), 1))
    assert not entry.matches(gzip.compress(gzip.decompress(stored) + b" "))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_private_is_in_the_file(path: Any) -> None:
    text = text_of(path.read_bytes())
    assert not found_private(text)
    for host in {socket.gethostname(), socket.getfqdn()} - {"localhost"}:
        assert f'"{host}"' not in text


@pytest.mark.parametrize(
    "private",
    [
        '"/home/someone/train.py(3): main"',
        '"/root/x.py"',
        r'"C:\\Users\\someone"',
        "someone@example.com",
        '"host_name": "node7"',
        "/tmp/t.json",
    ],
)
def test_the_scan_would_find_it(private: str) -> None:
    assert found_private(private)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_file_is_small_and_its_compression_has_no_date(path: Any) -> None:
    data = path.read_bytes()
    assert len(data) < (5_000 if path.parent.name == "malformed" else 250_000)
    if path.suffix == ".gz" and data[:2] == b"\x1f\x8b":
        assert data[4:8] == bytes(4)


# Captured traces


def calls_in_table(table: str) -> dict[str, int]:
    """Names and numbers of calls of a `key_averages()` table, by the columns that its dashes draw."""
    rule, header, *rows = [line for line in table.splitlines() if re.search(r"\S {2,}\S", line)]
    columns = [match.span() for match in re.finditer("-+", rule)]
    calls = next(span for span in columns if header[slice(*span)].strip() == "# of Calls")
    cells = [(row[slice(*columns[0])].strip(), row[slice(*calls)].strip()) for row in rows]
    return {name: int(count) for name, count in cells if name.startswith("aten::") and "..." not in name}


@pytest.mark.parametrize("capture", CAPTURED, ids=lambda capture: capture.name)
def test_the_captured_trace_has_the_calls_of_its_tables(capture: Any) -> None:
    trace, tables = (FOLDER / "captured" / name for name in capture.files)
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    calls: Counter[str] = Counter()
    nested: Counter[str] = Counter()
    ends: dict[tuple[str, object], float] = {}
    for event in sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: (e["ts"], -e["dur"])):
        # torch merges an operator with the one of the same name around it, if it is the only one in there
        name, place = event["name"], (event["name"], event["tid"])
        calls[name] += 1
        nested[name] += event["ts"] < ends.get(place, 0)
        ends[place] = max(ends.get(place, 0), event["ts"] + event["dur"])
    expected = calls_in_table(tables.read_text(encoding="utf-8").split("\n# ")[0])
    assert len(expected) >= 3
    assert all(calls[name] - nested[name] <= count <= calls[name] for name, count in expected.items())


def test_scrubbing_keeps_layout_and_takes_names_out() -> None:
    text = (
        '{\n    "schemaVersion": 1,\n      "host_name": "node7",\n    "traceEvents": [\n'
        '{"name": "/srv/a/lib/site-packages/torch/x.py(3): f", "pid": 99, "tid": 120},\n'
        '{"name": "thread 120 (python)", "pid": 99, "args": {"sort_index": 120}}\n],'
        '"traceName": "/srv/t.json" }'
    )
    assert scrub(text) == (
        '{\n    "schemaVersion": 1,\n    "traceEvents": [\n'
        '{"name": "torch/x.py(3): f", "pid": 1001, "tid": 1002},\n'
        '{"name": "thread 1002 (python)", "pid": 1001, "args": {"sort_index": 1002}}\n] }'
    )
    assert scrub_paths("a;/srv/b/run.py(1): main;torch/c.py(2): d") == "a;run.py(1): main;torch/c.py(2): d"


# Malformed files


def test_malformed_names_are_unique() -> None:
    assert len({file.name for file in MALFORMED}) == len(MALFORMED)


@pytest.mark.parametrize("file", MALFORMED, ids=lambda file: file.name)
def test_the_counts_fit_what_json_can_read(file: Malformed) -> None:
    """Where the file is sound JSON after all, the table must count every slice and record in it."""
    try:
        parsed = json.loads(text_of(file.data).removeprefix("\ufeff"), strict=True)
    except ValueError:
        pytest.skip("nothing to compare: it is no JSON")
    listed = parsed.get("traceEvents", []) if isinstance(parsed, dict) else parsed
    found = [
        event
        for event in (listed if isinstance(listed, list) else [])
        if isinstance(event, dict) and (event["ph"] == "X" or event["name"] == "[memory]")
        if event.get("cat") != "Trace"
    ]
    assert len(found) == file.readable + file.lost


@pytest.mark.parametrize(
    "name",
    [
        "truncated_in_event.json",
        "unescaped_quote.json",
        "damaged_border.json",
        "bare_inf.json",
        "nul_tail.json",
    ],
)
def test_broken_files_are_broken(name: str) -> None:
    file = next(file for file in MALFORMED if file.name == name)
    with pytest.raises(ValueError, match=r"."):
        json.loads(file.data.decode())
