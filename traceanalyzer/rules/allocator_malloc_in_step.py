"""Detects allocator-malloc-in-step: see pages/allocator-malloc-in-step.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls, SetUp
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import idle_time
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("allocator-malloc-in-step")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("runtime_calls", RuntimeCalls)
    rows = [row for row in found.rows if row.kind == "allocation"]
    usual = found.usual_steps
    if rows and not usual:
        raise Missing(_PAGE.text("one-step")())
    rows = [row for row in rows if _recurs(row, usual) and row.usual_steps >= limits["steps_share"] * usual]
    time = sum(_per_step(row.recurring_ns, row, usual) for row in rows)
    share = time / facts.step_ns if facts.step_ns else 0.0
    if share <= limits["time_share"]:
        return
    where = tuple(_place(row, _per_step(row.recurring_ns, row, usual)) for row in rows)
    evidence = Evidence(_PAGE.text("subject")(), share, limits["time_share"], "share", where)
    idle = _idle_ns(facts, time, found)
    exposed = None if idle is None else (min(time, idle), idle)
    direct = (time, time) if exposed is None else (exposed[0], max(time, idle or 0.0))
    change = TimeSaved("host", direct, _PAGE.text("basis")(), exposed, {"idle:allocation": direct[1]})
    calls = sum(_per_step(row.recurring_calls, row, usual) for row in rows)
    yield Draft((evidence,), change, {"calls": calls, "time": time, "call": rows[0].name}, ceiling="high")


def _recurs(row: SetUp, usual: int) -> bool:
    """Whether calls come in two usual steps, or in the only one and in the first recorded step."""
    return row.usual_steps > 1 or (usual == row.usual_steps == 1 and row.calls > row.later_calls)


def _per_step(recurring: float, row: SetUp, usual: int) -> float:
    """What a step has on average of what comes back in the steps that have any."""
    return recurring * row.usual_steps / usual


def _idle_ns(facts: Facts, time: float, found: RuntimeCalls) -> float | None:
    """The GPU's idle time per step that the calls that come back explain, in proportion; None if unknown."""
    idle = idle_time.per_later_step(facts, "allocation")
    every = sum(row.usual_ns for row in found.rows if row.kind == "allocation") / found.usual_steps
    return idle if idle is None or not every else idle * min(1.0, time / every)


def _place(row: SetUp, time: float) -> CodePlace:
    kind, name = ("call", row.name) if row.python_line is None else ("python", row.python_line)
    return CodePlace(kind, name, value=time, unit="ns", start_ns=row.longest_start_ns)


RULE = _PAGE.rule(trace=_trace)
