"""Damaged and odd files are read as far as possible, and losses are reported."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from tests.builders.generated import in_every_layout, oversized
from tests.builders.malformed import MALFORMED, Malformed
from tests.reading import lost_events, rows_read
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.trace.model import Trace

USABLE = [file for file in MALFORMED if file.usable]
UNUSABLE = [file for file in MALFORMED if not file.usable]


def name_of(file: Malformed) -> str:
    return file.name


def loaded(file: Malformed, folder: Path) -> Trace:
    path = folder / file.name
    path.write_bytes(file.data)
    trace = load(path)
    assert isinstance(trace, Trace)
    return trace


@pytest.mark.parametrize("file", [*USABLE, *in_every_layout()], ids=name_of)
def test_what_can_be_saved_is_read_and_the_rest_is_counted(file: Malformed, tmp_path: Path) -> None:
    trace = loaded(file, tmp_path)
    assert rows_read(trace, "flows") == file.readable
    assert lost_events(trace) == file.lost


@pytest.mark.parametrize("file", USABLE, ids=name_of)
def test_a_report_of_it_can_be_made(file: Malformed, tmp_path: Path) -> None:
    trace = loaded(file, tmp_path)
    report = analyze(trace)
    assert report.trace is not None
    assert report.trace.events >= file.readable
    assert [(warning.id, warning.count) for warning in report.warnings][: len(trace.losses)] == [
        (loss.id, loss.count) for loss in trace.losses
    ]


@pytest.mark.parametrize("file", UNUSABLE, ids=name_of)
def test_where_nothing_can_be_saved_one_line_says_why(file: Malformed, tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError) as error:
        loaded(file, tmp_path)
    text = str(error.value)
    assert text.startswith(f"{file.name}: ")
    assert "\n" not in text
    assert str(tmp_path) not in text
    assert len(text) > len(file.name) + 10


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.json", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(UnusableInputError, match=reason):
            load(path)


@pytest.mark.parametrize("file", oversized(), ids=name_of)
def test_oversized_damage_stays_small_in_memory(file: Malformed, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        if file.usable:
            trace = loaded(file, tmp_path)
            assert (rows_read(trace, "flows"), lost_events(trace)) == (file.readable, file.lost)
        else:
            with pytest.raises(UnusableInputError, match=f"^{file.name}: "):
                loaded(file, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Windows grow up to the largest element that is believed, 16 MiB, in a few copies.
    assert peak < 100e6


def test_a_trace_whose_halves_are_a_lifetime_apart_is_reported_without_the_smaller_one(tmp_path: Path) -> None:
    """Times that differ by a hundred years of ns no longer fit into 64 bits with what is added to them."""
    century_us = 100 * 365 * 86_400 * 1_000_000
    times = [100 * number for number in range(12)] + [century_us + 100 * number for number in range(8)]
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 7, "ts": at, "dur": 50, "args": {"stream": 7}}
        for at in times
        for category, name in (("cpu_op", "aten::mm"), ("kernel", "gemm"))
    ]
    path = tmp_path / "halves.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = load(path)
    assert isinstance(trace, Trace)
    assert lost_events(trace) == 16
    assert trace.info.span_ns == 1_150_000
    assert analyze(trace).trace is not None
