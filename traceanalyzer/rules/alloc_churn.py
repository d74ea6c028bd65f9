"""Detects alloc-churn: see pages/alloc-churn.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("alloc-churn")
_ALLOCATING = frozenset(
    {
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::empty_permuted",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::resize_",
        "aten::resize_as_",
    }
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.operators if row.name in _ALLOCATING and row.calls]
    host = facts.host_per_step(sum(row.host_self_ns for row in rows))
    share = host / facts.step_ns if facts.step_ns else 0.0
    evidence = []
    # Recording memory makes every allocation slower than it is.
    if share > limits["host_share"] and facts.find("memory", MemoryUse) is None:
        evidence.append(Evidence(_PAGE.text("host")(), share, limits["host_share"], "share", _places(rows)))
    evidence += _turnover(facts, limits["turnover"])
    if evidence and rows:
        calls = facts.host_per_step(sum(row.calls for row in rows))
        change = TimeSaved(
            "host", (0.0, host), _PAGE.text("basis")(), claims={f"operator:{row.name}": host for row in rows[:1]}
        )
        yield Draft(tuple(evidence), change, {"calls": round(calls), "host": host, "share": share}, ceiling="low")


def _turnover(facts: Facts, limit: float) -> Iterator[Evidence]:
    memory = facts.find("memory", MemoryUse)
    for device in memory.devices if memory else ():
        peak = device.peak_allocated_bytes
        if device.device == "CPU" or not peak or not device.steps:
            continue
        taken = sum(step.allocated_bytes for step in device.steps) / len(device.steps)
        if taken / peak > limit:
            where = (CodePlace("memory", device.device, value=round(taken), unit="bytes"),)
            yield Evidence(_PAGE.text("turnover")(), taken / peak, limit, "number", where)


def _places(rows: list[OperatorFact]) -> tuple[CodePlace, ...]:
    ranked = sorted(rows, key=lambda row: (-row.host_self_ns, row.name))
    return tuple(CodePlace("operator", row.name, value=row.host_self_ns, unit="ns") for row in ranked[:5])


RULE = _PAGE.rule(trace=_find, table=_find)
