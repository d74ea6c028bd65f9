"""Detects dataparallel: see pages/dataparallel.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication.data_parallel import DataParallel
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.idle_claims import claims
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("dataparallel")
_LEAST = 0.5
"""Own choice: what replaces the wrapper is not free either."""
_NAME = "DataParallel.forward"


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("data_parallel", DataParallel)
    calls = found.calls / facts.steps
    if not calls > limits["calls_per_step"]:
        return
    many = len(found.devices) > 1
    own = facts.host_per_step(found.own_host_ns)
    moving = facts.host_per_step(sum(row.host_ns for row in found.distribution)) if many else 0.0
    where = [CodePlace("operator", _NAME, value=found.host_ns, unit="ns", start_ns=found.start_ns)]
    where += [CodePlace("operator", row.name, value=row.host_ns, unit="ns") for row in found.distribution]
    evidence = Evidence(_PAGE.text("subject")(), calls, limits["calls_per_step"], "number", tuple(where))
    time = own + moving
    ended = {} if many or not found.devices else claims(facts, found.exposed)
    exposed = None if many or not found.devices else sum(ended.values())
    change = TimeSaved(
        "host",
        (_LEAST * time, time),
        (_PAGE.text("basis-many") if many else _PAGE.text("basis"))(least=_LEAST),
        None if exposed is None else (min(_LEAST * time, exposed), min(time, exposed)),
        ended,
    )
    params = {"devices": len(found.devices), "time": time}
    confidence = None if found.is_marked else "B"
    yield Draft(
        (evidence,),
        change,
        params,
        confidence=confidence,
        summary=_PAGE.text("summary-many") if many else None,
        advice=_PAGE.text("advice-many") if many else None,
        code=_CODE_MANY if many else None,
    )


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [] if facts.view is None else [row for row, _ in facts.view.by_name if row.name == _NAME and row.calls]
    calls = sum(row.calls or 0 for row in rows) / facts.steps
    if not calls > limits["calls_per_step"]:
        return
    own = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_PAGE.text("subject")(), calls, limits["calls_per_step"], "number", where)
    change = TimeSaved("host", (0.0, own), _PAGE.text("basis-table")())
    yield Draft(
        (evidence,), change, {"time": own}, summary=_PAGE.text("summary-table"), advice=_PAGE.text("advice-table")
    )


_CODE_MANY = "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])"


RULE = _PAGE.rule(trace=_trace, table=_table)
