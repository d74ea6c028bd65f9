"""Detects host-waits-or-logs: see pages/host-waits-or-logs.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.host import HostOwner
from traceanalyzer.analyzers.host.pauses import HostPauses, PauseOwner
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("host-waits-or-logs")
_LEAST = 0.8
"""Own choice: some printing, logging and sleeping is needed."""
_LEAST_UNKNOWN = 0.5
"""Own choice: more of a pause may be needed if no name shows its purpose, such as the step of an environment."""
_DISPENSABLE = frozenset({"sleep", "logging"})
"""Roles of host work (`knowledge.host_roles`) that a step can mostly do without."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    _host_work.need_cpu_steps(facts)
    if _is_of_several_ranks(facts):
        raise Missing(_PAGE.text("ranks")())
    reads, pauses = facts.find("value_reads", ValueReads), facts.find("host_pauses", HostPauses)
    printing = 0.0 if reads is None else reads.printing_ns / reads.steps
    recorded = 0.0 if reads is None else reads.printing_operators / reads.steps
    if pauses is not None and pauses.paused_steps < limits["paused_share"] * pauses.steps:
        pauses = None
    waiting = 0.0 if pauses is None else pauses.time_ns / pauses.steps
    time = printing + waiting
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    kept = _least(printing, waiting, pauses)
    interval = (kept * _host_work.without_recording(facts, time, recorded), _host_work.most(facts, time))
    change = TimeSaved("host", interval, _PAGE.text("basis-share")(least=kept), interval)
    evidence = Evidence(_PAGE.text("subject")(), share, limits["share"], "share", _places(reads, pauses))
    params: dict[str, object] = {"time": time, "step": facts.step_ns, "printing": printing, "waiting": waiting}
    summary = _PAGE.text("summary-prints") if not waiting else _PAGE.text("summary-pauses") if not printing else None
    advice = (
        None
        if printing
        else _PAGE.text("advice-lines")
        if any(p.kind == "python" for p in evidence.where)
        else _PAGE.text("advice-pauses")
    )
    confidence = _confidence(pauses, waiting, time)
    yield Draft((evidence,), change, params, ceiling="high", confidence=confidence, summary=summary, advice=advice)


def _least(printing: float, waiting: float, pauses: HostPauses | None) -> float:
    """Share of the time that at least goes away: of printing, of pauses that names explain, and of others."""
    rows = () if pauses is None else pauses.owners
    known = sum(row.time_ns for row in rows if row.role in _DISPENSABLE) / pauses.steps if pauses is not None else 0.0
    known = min(known, waiting)
    return (_LEAST * (printing + known) + _LEAST_UNKNOWN * (waiting - known)) / (printing + waiting)


def _is_of_several_ranks(facts: Facts) -> bool:
    told = facts.summary.world_size if facts.summary is not None else None
    if told is None and facts.capture is not None and facts.capture.facts.distributed is not None:
        told = facts.capture.facts.distributed.world_size
    return (told or 1) > 1 or facts.find("communication", Communication) is not None


def _confidence(pauses: HostPauses | None, waiting: float, time: float) -> str | None:
    """Lower if most of the time is a pause of unknown purpose."""
    told = pauses is not None and any(_tells(row) for row in pauses.owners)
    return None if told or 2 * waiting <= time else "C"


def _tells(row: PauseOwner | HostOwner) -> bool:
    return row.kind in ("function", "library", "module") or row.role is not None


def _places(reads: ValueReads | None, pauses: HostPauses | None) -> tuple[CodePlace, ...]:
    found = []
    if pauses is not None:
        for row in pauses.owners[:3]:
            is_line = row.file is not None and row.line is not None
            name = f"{row.file}({row.line}): {row.name}" if is_line else row.name
            kind = "python" if is_line else "time"
            found.append(CodePlace(kind, name, None, row.time_ns / pauses.steps, "ns", row.start_ns))
        if not found:
            name = pauses.after or "ProfilerStep"
            found.append(CodePlace("operator", name, None, pauses.longest_ns, "ns", pauses.longest_start_ns))
    for line in reads.printing_lines[:3] if reads is not None else ():
        kind = "python" if line.is_line else "operator"
        time = line.time_ns / reads.steps if reads is not None else None
        found.append(CodePlace(kind, line.name, None, time, "ns", line.start_ns))
    return tuple(found)


RULE = _PAGE.rule(trace=_trace)
