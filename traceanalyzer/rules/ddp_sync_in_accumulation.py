"""Detects ddp-sync-in-accumulation: see pages/ddp-sync-in-accumulation.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import BACKWARD
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("ddp-sync-in-accumulation")
_LEAST = 0.5
"""Least part of the time that is saved (own choice: one rank's trace does not show what of a collective is waiting)."""
_SLOWED = 1.35
"""Greatest saving on a CPU as a multiple of the time of the exchanges (measured in the lab, explained on the page)."""
_COPYING = re.compile(r"torch::distributed::reducer::|torch\.distributed\.ddp\.reducer::|c10d::allreduce_$")
"""Operators of DistributedDataParallel beside its collectives on the CPU."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("passes", Passes).accumulation
    if found is None or found.early_exchanges < limits["early_exchanges"]:
        return
    where = tuple(CodePlace("time", "backward", None, e.time_ns, "ns", e.start_ns, BACKWARD()) for e in found.examples)
    evidence = Evidence(_PAGE.text("subject")(), found.early_exchanges, limits["early_exchanges"], "count", where)
    params: dict[str, float] = {"passes": found.passes, "updates": found.updates, "early": found.early_exchanges}
    if found.time_ns is None or found.exposed_ns is None:
        yield Draft((evidence,), None, params, severity="info", summary=_PAGE.text("summary-host"))
        return
    time, exposed = facts.host_per_step(found.time_ns), facts.host_per_step(found.exposed_ns)
    claims = {"communication": time}
    if found.is_on_host:
        copying = found.early_exchanges / (found.early_exchanges + found.updates) * _copying(facts)
        interval = _LEAST * exposed, _SLOWED * (time + copying)
        change = TimeSaved("host", interval, _PAGE.text("basis-cpu")(most=_SLOWED, least=_LEAST), None, claims)
        yield Draft((evidence,), change, {**params, "time": time}, severity="info")
        return
    change = TimeSaved(
        "communication", (time, time), _PAGE.text("basis")(least=_LEAST), (_LEAST * exposed, exposed), claims
    )
    yield Draft((evidence,), change, {**params, "time": time}, severity="info")


def _copying(facts: Facts) -> float:
    """Time per step in which gradients are copied into buckets and back, and all-reduces are started."""
    return facts.host_per_step(sum(row.host_total_ns for row in facts.operators if _COPYING.match(row.name)))


RULE = _PAGE.rule(trace=_trace)
