"""The findings of the rules for a situation."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from math import hypot
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import pytest

from tests.builders import TraceBuilder
from tests.builders.flight_recorder import FlightRun
from tests.builders.memory_snapshot import MemoryRecorder
from tests.reading import read, read_built
from traceanalyzer import multirank, pipeline, readers
from traceanalyzer.config import Config
from traceanalyzer.multirank import join, measure_rank
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.source import Source
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.rules.engine import runner, selection
from traceanalyzer.rules.engine.facts import Facts

HERE = Path(__file__).parent

Situation = TraceBuilder | str | tuple[TraceBuilder, ...] | FlightRun | MemoryRecorder
"""One rank, a text with tables, the ranks of a run in their order, their dumps, or a memory snapshot."""
Thresholds = Mapping[str, float]


def report(
    situation: Situation, rule: str | None = None, limits: Thresholds | None = None, *, seconds: float = 60.0
) -> Report:
    """The report on a situation, of one rule only if one is named."""
    chosen = {rule: limits} if rule and limits else {}
    config = Config(rules=chosen, select=(rule,) if rule else (), rule_seconds=seconds)
    if isinstance(situation, tuple):
        members = {rank: measure_rank(read_built(trace)) for rank, trace in enumerate(situation)}
        return join({rank: member for rank, member in members.items() if member is not None}, "run", config)
    if isinstance(situation, FlightRun):
        return pipeline.analyze_dumps(situation.dumps(), "run", config)
    if isinstance(situation, MemoryRecorder):
        return analyze(situation.read(), config=config)
    if isinstance(situation, TraceBuilder):
        chosen_rules = selection.choose(config)
        found = _measured(situation.to_bytes())
        return pipeline.report_of(*found.parts, pipeline.judge(found.facts, chosen_rules))
    data = situation.encode()
    return analyze(readers.read(Source(io.BytesIO(data), "tables.txt", len(data), lambda _: None)), config=config)


class Measured(NamedTuple):
    """What a report has of a trace whichever rules are chosen."""

    parts: tuple[Any, ...]
    """Arguments of `pipeline.report_of` but for the last one, what rules say."""
    facts: tuple[Facts, ...]


@lru_cache(128)
def _measured(data: bytes) -> Measured:
    """All but what rules say, which takes a tenth of the time: many tests ask rules about equal traces."""
    facts: list[Facts] = []
    parts: list[Any] = []
    report_of = pipeline.report_of

    def judge_nothing(runs: Sequence[Facts], _: object) -> runner.Advice:
        facts.extend(runs)
        return runner.judge(runs, ())

    def keep(*arguments: Any) -> Report:
        parts.extend(arguments[:-1])
        return report_of(*arguments)

    with mock.patch.object(pipeline, "judge", judge_nothing), mock.patch.object(pipeline, "report_of", keep):
        analyze(read(data))
    return Measured(tuple(parts), tuple(facts))


def facts_of(situation: Situation) -> tuple[Facts, ...]:
    """What rules are given of a situation: of its ranks together, or of each run of its tables."""
    if isinstance(situation, TraceBuilder):
        return _measured(situation.to_bytes()).facts
    found: list[Facts] = []

    def judge_nothing(runs: Sequence[Facts], _: object) -> runner.Advice:
        found.extend(runs)
        return runner.judge(runs, ())

    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, multirank):
            patch.setattr(module, "judge", judge_nothing)
        report(situation)
    return tuple(found)


def varied(low: float, high: float | None = None, point: float | None = None) -> tuple[float, float]:
    """The interval of a replayed saving whose steps are all alike, or fewer than three: 2 % of the point, in squares.

    No more than `high`, which the change takes away. Of one value alone: 98/102 of it to all of it.
    """
    most = low if high is None else high
    middle = (low + most) / 2 if point is None else point
    return min(middle - hypot(middle - low, 0.02 * middle), most * 98 / 102), most


def findings(situation: Situation, rule: str, limits: Thresholds | None = None) -> list[Finding]:
    """The findings of one rule."""
    whole = report(situation, rule, limits)
    assert not [entry for entry in whole.skipped if entry.reason.id == "rule-failed"]
    found = whole.findings
    assert all(finding.rule == rule for finding in found)
    return list(found)


def skipped(situation: Situation, rule: str) -> str | None:
    """Why a rule could not be judged; None if it could."""
    reasons = {entry.id: entry.reason.text for entry in report(situation, rule).skipped}
    return reasons.get(rule)


def situations(rule: str) -> ModuleType:
    """The module of a rule's tests, in the folder of its subject, which has its situations.

    These are functions without arguments: `fires*` must give a finding, `quiet*` and `trap_*` must not; each
    trap is one false alarm that the rule's page warns about. A situation is a trace builder, or the text of a table
    document. Each describes what a program does; none is tuned to a threshold (edges have separate tests).
    """
    (file,) = HERE.glob(f"*/test_{rule.replace('-', '_')}.py")
    return import_module(f"tests.rules.{file.parent.name}.{file.stem}")


def functions(module: ModuleType, prefix: str) -> dict[str, Callable[[], Situation]]:
    """The situations of one kind that a module defines, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith(prefix) and callable(value) and value.__module__ == module.__name__
    }


def table(rows: list[dict[str, Any]], *, cpu: str, device: str | None = None) -> str:
    """A printed table as torch prints it: columns in the order of the first row's keys, values as they will stand.

    Args:
        rows: Per row `{"Name": ..., "Self CPU": "1.000ms", ..., "# of Calls": 3}`; every row has the same keys.
        cpu: `Self CPU time total`, such as `10.000ms`.
        device: `Self CUDA time total`, None: no line.
    """
    names = list(rows[0])
    texts = [[value if isinstance(value, str) else json.dumps(value) for value in row.values()] for row in rows]
    widths = [
        max(len(cell) for cell in (name, *column)) for name, column in zip(names, zip(*texts, strict=True), strict=True)
    ]
    rule = "  ".join("-" * width for width in widths)
    lines = [rule, "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True)), rule]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in texts]
    totals = [f"Self CPU time total: {cpu}"] + ([f"Self CUDA time total: {device}"] if device else [])
    return "\n".join([*lines, rule, *totals, ""])


def said(trace: TraceBuilder) -> str:
    """All that the headline says: its sentence, what qualifies it, and details."""
    (found,) = report(trace).headlines
    return found.text
