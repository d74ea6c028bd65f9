"""The JSON report: it keeps to its schema, reads back as the same report, and is the same every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.formats.samples import EVERY, FIXTURES, HOSTILE, SOUND, TRAINING, marked, report_of
from tests.reading import assert_reads_back
from traceanalyzer import formats
from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import json as to_json
from traceanalyzer.formats import render
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report

SCHEMA = json.loads((FIXTURES.parent / "docs" / "report.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
each_fixture = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
each_sound_fixture = pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)


def json_of(path: Path) -> Any:
    return json.loads(render(report_of(path), "json"), parse_constant=pytest.fail)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@each_fixture
def test_it_keeps_to_the_schema(path: Path) -> None:
    VALIDATOR.validate(json_of(path))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda report: report.pop("schema_version"),
        lambda report: report["source"].update(size_bytes="many"),
        lambda report: report["trace"].update(span_ns=1.5),
        lambda report: report["analyses"].update(unheard_of={}),
        lambda report: report["analyses"]["operators"]["rows"][0].update(calls=None),
        lambda report: report["analyses"]["gpu"]["devices"][0].pop("utilization"),
        lambda report: report.update(warnings=None),
    ],
)
def test_the_schema_would_notice(spoil: Any) -> None:
    report = json_of(TRAINING)
    spoil(report)
    assert not VALIDATOR.is_valid(report)


def laid_out(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def without_columns(report: Report) -> Report:
    kept = {key: result for key, result in report.analyses.items() if key != "slices"}
    return msgspec.structs.replace(report, analyses=kept)


@each_fixture
def test_its_pieces_are_the_whole(path: Path) -> None:
    report = report_of(path)
    assert json.loads(b"".join(to_json.encode(report))) == json.loads(laid_out(report))
    report = without_columns(report)
    assert b"".join(to_json.encode(report)) == laid_out(report)


def test_a_column_is_one_line() -> None:
    report = report_of(TRAINING)
    lane = report.analyses["slices"].times[0].lanes[0]
    lines = [line.strip().rstrip(",") for line in render(report, "json").splitlines()]
    assert f'"start": {json.dumps(lane.start, separators=(",", ":"))}' in lines
    assert not any(line.isdigit() for line in lines[lines.index('"slices": {') : lines.index('"step_idle": {')])


@pytest.mark.parametrize("rows", [999, 1000, 1001, 2000, 5001])
def test_many_rows_are_written_in_pieces(rows: int) -> None:
    report = without_columns(report_of(TRAINING))
    row = report.analyses["operators"].rows[0]
    many = Operators(tuple(msgspec.structs.replace(row, name=f"aten::\n{i}") for i in range(rows)))
    long = msgspec.structs.replace(report, analyses={**report.analyses, "operators": many})
    pieces = list(to_json.encode(long))
    assert b"".join(pieces) == laid_out(long)
    assert max(map(len, pieces)) < 300_000


@each_fixture
def test_it_reads_back_as_the_same_report(path: Path) -> None:
    report = report_of(path)
    text = render(report, "json")
    again = msgspec.json.decode(text, type=Report)
    assert_reads_back(text, report)
    assert render(again, "json") == text


@pytest.mark.parametrize("form", ["terminal", "markdown"])
@pytest.mark.parametrize("name", ["gpu_training.json.gz", "rocm_training.json.gz", "truncated.json.gz"])
def test_a_saved_report_looks_the_same(name: str, form: str) -> None:
    report = report_of(next(path for path in EVERY if path.name == name))
    again = msgspec.json.decode(render(report, "json"), type=Report)
    assert render(again, form) == render(report, form)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_hostile_names_read_back_too(name: str) -> None:
    report = marked(name)
    text = render(report, "json")
    VALIDATOR.validate(json.loads(text))
    assert_reads_back(text, report)


@each_sound_fixture
def test_reading_twice_gives_the_same_bytes(path: Path) -> None:
    assert render(analyze(load(path)), "json") == render(report_of(path), "json")


def test_it_names_the_file_without_its_folder(tmp_path: Path) -> None:
    copy = tmp_path / TRAINING.name
    copy.write_bytes(TRAINING.read_bytes())
    text = render(analyze(load(copy)), "json")
    assert text == render(report_of(TRAINING), "json")
    assert str(tmp_path) not in text


def walk(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value with the keys that lead to it."""
    yield keys, value
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from walk(inner, (*keys, key))
    for inner in value if isinstance(value, list) else ():
        yield from walk(inner, keys)


_MEANS = ("replay", "critical_path", "average", "mean", "median", "typical", "excess", "avoidable", "starved", "saving")
"""Words in keys of times that are not sums of events."""


@each_sound_fixture
def test_units_are_in_the_keys(path: Path) -> None:
    measured = 0
    for keys, value in walk(json_of(path)["analyses"]):
        if keys[-1:] == ("overhead_share",):  # what the profiler adds has no upper end
            continue
        name = keys[-1] if keys else ""
        is_mean = "resources" in keys or any(part in key for key in keys for part in _MEANS)
        if value is None or isinstance(value, dict | list):
            continue
        if name.endswith(("_ns", "_bytes")):
            measured += 1
            assert type(value) is int or ((is_mean or "per_" in name) and type(value) is float), keys
            assert value >= 0 or "increase" in name or "growth" in name, keys
        if name.endswith(("_share", "_occupancy", "_efficiency")) or name == "utilization":
            # A rate over a data sheet's peak: tensors that stay in the cache beat the memory.
            assert 0 <= value <= (1 if keys[0] != "roofline" else 2), keys
    assert measured


@each_fixture
def test_messages_have_all_their_quantities(path: Path) -> None:
    report = json_of(path)
    messages = [warning["message"] for warning in report["warnings"]] + [s["reason"] for s in report["skipped"]]
    assert messages
    for message in messages:
        assert set(message) == {"id", "params", "text"}
        assert "{" not in message["text"]
        assert message["text"].endswith(".") or message["id"] not in {w["id"] for w in report["warnings"]}


def test_there_is_no_other_format() -> None:
    with pytest.raises(UsageError, match="no such format"):
        render(report_of(TRAINING), "docx")
    for name, suffixes in formats.FORMATS.items():
        assert render(report_of(TRAINING), name)
        assert all(formats.format_of(f"Report{suffix.upper()}") == name for suffix in suffixes)
    with pytest.raises(UsageError, match=r"\.md"):
        formats.format_of("report.docx")
