"""From the block in a trace to the report."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import msgspec
import pytest

import traceanalyzer as ta
from traceanalyzer.analyzers.capture import ANALYSES, analyze
from traceanalyzer.capture.agent.recording import _deprecates_modules
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.capture_facts import parse

SCHEMA = Path(__file__).parents[2] / "docs" / "capture.schema.json"
OPERATOR = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
TIMING = {
    "before": {"steps": 2, "mean_ns": 999, "median_ns": 999},
    "profiled": {"steps": 5, "mean_ns": 900, "median_ns": 150},
    "after": {"steps": 5, "mean_ns": 700, "median_ns": 100},
}
LOADER = {"workers": 2, "batch_size": 32, "epochs": 1}
BLOCK = {"version": 1, "timing": TIMING, "loaders": [LOADER], "batches_per_step": 2.0, "from the future": {}}


def read(tmp_path: Path, block: Any) -> ta.Trace:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceanalyzer": block, "schemaVersion": 1, "traceEvents": [OPERATOR]}))
    trace = ta.load(path)
    assert isinstance(trace, ta.Trace)
    return trace


def test_the_block_is_read_and_unknown_fields_are_passed_over(tmp_path: Path) -> None:
    facts = read(tmp_path, BLOCK).info.capture
    assert facts is not None
    assert facts.loaders is not None
    assert (facts.loaders[0].workers, facts.loaders[0].pin_memory) == (2, None)


@pytest.mark.parametrize(
    "block", [None, [], "text", {}, {"version": 2}, {"version": 1, "loaders": 3}, {"version": "1"}]
)
def test_a_block_that_is_damaged_or_of_another_version_is_none(tmp_path: Path, block: Any) -> None:
    trace = read(tmp_path, block)
    assert trace.info.capture is None
    assert not trace.losses
    assert ANALYSES[0].missing(Context(trace)) is not None


def test_the_overhead_compares_medians_of_the_phase_with_more_steps(tmp_path: Path) -> None:
    found = analyze(Context(read(tmp_path, BLOCK)))
    assert (found.control_step_ns, found.profiled_step_ns) == (100, 150)
    assert found.overhead_share == pytest.approx(0.5)
    assert found.samples_per_s == pytest.approx(2 * 32 * 1e9 / 100)


def test_of_few_steps_the_mean_counts(tmp_path: Path) -> None:
    timing = {
        "profiled": {"steps": 2, "mean_ns": 30, "median_ns": 1},
        "before": {"steps": 1, "mean_ns": 20, "median_ns": 1},
    }
    found = analyze(Context(read(tmp_path, BLOCK | {"timing": timing})))
    assert (found.control_step_ns, found.profiled_step_ns, found.overhead_share) == (20, 30, 0.5)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"timing": {}}, "control_step_ns"),
        ({"timing": {}}, "overhead_share"),
        ({"timing": {"after": TIMING["after"]}}, "overhead_share"),
        ({"loaders": [LOADER, LOADER]}, "samples_per_s"),
        ({"loaders": None}, "samples_per_s"),
        ({"batches_per_step": None}, "samples_per_s"),
        ({"timing": TIMING | {"profiled": TIMING["after"] | {"median_ns": 1}}}, "overhead_share"),
    ],
)
def test_what_is_not_there_stays_unknown(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    assert getattr(analyze(Context(read(tmp_path, BLOCK | change))), field) is None


def test_a_block_keeps_to_the_published_schema() -> None:
    jsonschema.validate(BLOCK, json.loads(SCHEMA.read_text("utf-8")))


def test_facts_survive_json() -> None:
    facts = parse(BLOCK)
    assert facts is not None
    assert parse(json.loads(msgspec.json.encode(facts))) == facts


@pytest.mark.parametrize(
    ("version", "is_deprecated"),
    [("2.13.0", False), ("2.14.1+cpu", True), ("2.15.0a0", True), ("3.0", True), ("1.8.1", False), ("unknown", False)],
)
def test_modules_are_not_asked_for_where_torch_warns_of_them(version: str, is_deprecated: bool) -> None:
    assert _deprecates_modules(SimpleNamespace(__version__=version)) is is_deprecated
