"""Detects h2d-blocking: see pages/h2d-blocking.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _copies, _waits
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.trace.document import TableRow

_PAGE = page("h2d-blocking")
_SYNCHRONIZE = frozenset({"cudaStreamSynchronize", "hipStreamSynchronize"})


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    pinned = [row for row in _copies.to_device(facts.need("copies", Copies)) if row.host_memory == "pinned"]
    rows = [row for row in pinned if row.synchronized_calls]
    avoidable = _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = avoidable / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["gain_share"]:
        return
    where = _callers(facts) or tuple(CodePlace("copy", row.name, value=row.avoidable_ns, unit="ns") for row in rows)
    evidence = Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", where)
    claims = {f"copies:{row.name}": facts.host_per_step(row.avoidable_ns or 0) for row in rows}
    wait = facts.host_per_step(sum(row.synchronized_ns or 0 for row in rows))
    calls = sum(row.synchronized_calls or 0 for row in rows) / facts.steps
    params = {"calls": calls, "wait": wait, "gain": avoidable}
    yield Draft((evidence,), _waits.change(avoidable, claims), params, ceiling="medium")


def _callers(facts: Facts) -> tuple[CodePlace, ...]:
    """The parts of the program that wait for streams in copying operators, those first that could save most."""
    waits = facts.find("synchronizations", Synchronizations)
    rows = [row for row in waits.rows if row.owner and row.call in _SYNCHRONIZE and row.avoidable_ns] if waits else []
    rows = [row for row in rows if "aten::copy_" in row.operators]
    rows.sort(key=lambda row: -(row.avoidable_ns or 0))
    return tuple(map(_waits.place, rows[:5]))


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    copies = [row for row in facts.rows(RowKind.COPY) if "HtoD" in row.name and "Pinned" in row.name and row.calls]
    waits = [row for row in facts.rows(RowKind.RUNTIME) if row.name in _SYNCHRONIZE and row.calls]
    copied, waited = _calls(copies), _calls(waits)
    lowest = limits["waits_per_copy"]
    if not copied or not lowest < waited / copied < 1 / lowest:
        return
    wait = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in waits))
    if wait <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in (*waits, *copies))
    evidence = Evidence(_PAGE.text("subject-table")(), waited / copied, lowest, "number", where)
    claims = {f"copies:{row.name}": wait * (row.calls or 0) / copied for row in copies}
    change = _waits.printed_change(facts, wait, claims)
    params = {"calls": waited / facts.steps, "wait": wait}
    yield Draft((evidence,), change, params, ceiling="medium", confidence="B", summary=_PAGE.text("summary-table"))


def _calls(rows: Sequence[TableRow]) -> int:
    return sum(row.calls or 0 for row in rows)


RULE = _PAGE.rule(trace=_trace, table=_table)
