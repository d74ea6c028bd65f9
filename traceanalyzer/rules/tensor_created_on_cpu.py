"""Detects tensor-created-on-cpu: see pages/tensor-created-on-cpu.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.copies.host_tensors import HostOrigin, HostOrigins
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("tensor-created-on-cpu")
_LAUNCH_NS = 20_000
"""Host time of an operator that launches one kernel, in eager mode on a common CPU."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("host_origins", HostOrigins).rows
    if found and (facts.summary is None or facts.summary.steps_from != "ProfilerStep"):
        raise Missing(_PAGE.text("no-steps")())
    rows = [
        row for row in found if row.calls >= limits["calls_per_step"] * facts.steps and 2 * row.steps >= facts.steps
    ]
    if not rows:
        return
    time = facts.host_per_step(sum(row.making_ns + row.moving_ns for row in rows))
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    calls = sum(row.calls for row in rows) / facts.steps
    evidence = Evidence(_PAGE.text("subject")(), share, limits["host_share"], "share", tuple(map(_place, rows)))
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{row.operator}"
        claims[key] = claims.get(key, 0.0) + facts.host_per_step(row.making_ns + row.moving_ns)
    change = TimeSaved(
        "host", (max(0.0, time - calls * _LAUNCH_NS), time), _PAGE.text("basis")(launch=_LAUNCH_NS), claims=claims
    )
    params = {"calls": calls, "time": time, "share": share, "operator": rows[0].operator}
    yield Draft((evidence,), change, params, ceiling="low")


def _place(row: HostOrigin) -> CodePlace:
    kind, name = ("operator", row.operator) if row.python_line is None else ("python", row.python_line)
    time = row.making_ns + row.moving_ns
    return CodePlace(kind, name, shapes=row.shapes, value=time, unit="ns", start_ns=row.first_start_ns)


RULE = _PAGE.rule(trace=_trace)
