"""Detects sync-between-launches: see pages/sync-between-launches.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _environment, _idle
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("sync-between-launches")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    device = _idle.busiest(facts, found)
    waits = facts.need("synchronizations", Synchronizations)
    if device is None or not device.time_ns or not _idle.waits_again_and_again(found, device):
        return
    time = sum(row.after_waits_ns for row in device.causes) / found.steps
    share = time / (device.time_ns / found.steps)
    rows = [row for row in waits.rows if row.operators]
    if share <= limits["gap_share"] or not rows:
        return
    evidence = Evidence(_PAGE.text("subject")(), share, limits["gap_share"], "share", _places(rows))
    claims = {f"operator:{row.operators[-1]}": time for row in rows}
    change = TimeSaved(
        "host",
        (0.0, time),
        _PAGE.text("basis")(),
        (0.0, time),
        {**claims, "idle:synchronization": time},
        replayed=_PAGE.text("replayed")(),
    )
    params = {"waits": found.waits / found.steps, "launches": device.events / found.steps, "time": time}
    advice = _environment.ADVICE if _environment.is_stepped(facts) else None
    yield Draft((evidence,), change, params, ceiling="high", advice=advice)


def _places(rows: list[Synchronization]) -> tuple[CodePlace, ...]:
    """The operators, owners or lines that wait, with the number of waits per step, the most frequent first."""
    counts: dict[tuple[str, str], float] = {}
    for row in rows:
        place = ("python", row.python_line) if row.python_line is not None else ("operator", " > ".join(row.operators))
        counts[place] = counts.get(place, 0.0) + (row.calls_per_step or 0.0)
    order = sorted(counts, key=lambda place: (-counts[place], place))
    return tuple(CodePlace(kind, name, value=counts[kind, name], unit="count") for kind, name in order)


RULE = _PAGE.rule(trace=_trace)
