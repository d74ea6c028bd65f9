"""Detects sync-device-wide: see pages/sync-device-wide.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits.device_wide import DeviceSync, DeviceSyncs, is_device_wide
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _waits
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("sync-device-wide")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = facts.need("device_syncs", DeviceSyncs).rows
    if any(row.avoidable_ns is None for row in rows):
        raise Missing(_waits.NO_DEVICE())
    calls = sum(row.calls for row in rows) / facts.steps
    gain = _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if share <= limits["gain_share"] or calls < limits["calls_per_step"]:
        return
    evidence = Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", tuple(map(_place, rows)))
    change = _waits.change(gain, {"idle:synchronization": gain})
    yield Draft((evidence,), change, {"calls": calls, "gain": gain, "step": facts.step_ns}, ceiling="high")


def _place(row: DeviceSync) -> CodePlace:
    if row.owner is not None:
        return _waits.owned(row.owner, row.call, row.avoidable_ns, row.longest_start_ns)
    kind, name = ("call", row.call) if row.python_line is None else ("python", row.python_line)
    return CodePlace(kind, name, value=row.avoidable_ns, unit="ns", start_ns=row.longest_start_ns)


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.RUNTIME) if is_device_wide(row.name)]
    if not rows:
        return
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(_waits.NO_STEPS())
    calls = (sum(row.calls or 0 for row in rows) - 1) / facts.steps  # one is the profiler's own
    time = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in rows))
    if calls < limits["calls_per_step"] or time <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_PAGE.text("calls")(), calls, limits["calls_per_step"], "number", where)
    change = _waits.printed_change(facts, time, {"idle:synchronization": time})
    yield Draft(
        (evidence,),
        change,
        {"calls": calls, "time": time},
        ceiling="medium",
        confidence="C",
        summary=_PAGE.text("summary-table"),
    )


RULE = _PAGE.rule(trace=_trace, table=_table)
