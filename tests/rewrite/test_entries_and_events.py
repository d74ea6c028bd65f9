"""What `report`, `trim` and `anonymize` count in one file has two names, and each means the same everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from tests.builders import TraceBuilder
from tests.cli.running import call
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze


def trace() -> TraceBuilder:
    made = TraceBuilder()
    made.step(1, 0, 1000)
    made.op("aten::mm", 100, 40)
    made.launch_kernel("ampere_sgemm_128x64_nn", 120, 100, at=110)
    return made


def count(text: str, word: str) -> int:
    found = re.search(rf"([\d,]+) {word}", text)
    assert found, text
    return int(found[1].replace(",", ""))


def test_events_are_the_entries_that_are_analyzed(tmp_path: Path) -> None:
    source = trace().write(tmp_path / "t.json")
    entries = json.loads(source.read_text())["traceEvents"]
    analyzed = [e for e in entries if e["ph"] == "X" and e.get("cat") != "Trace"]
    assert 0 < len(analyzed) < len(entries)

    report = call("report", source)
    assert count(report.out + report.err, "events") == len(analyzed)
    assert msgspec.to_builtins(analyze(load(source)))["trace"]["events"] == len(analyzed)

    anonymized = call("anonymize", source, "-o", tmp_path / "a.json").err
    trimmed = call("trim", source, "-o", tmp_path / "b.json", "--time", "0:").err
    assert count(anonymized, "entries") == len(entries)
    assert count(trimmed, "entries") == len(entries)
    assert not re.search(r"[0-9] events", anonymized + trimmed)
    assert analyze(load(tmp_path / "a.json")).trace.events == len(analyzed)
