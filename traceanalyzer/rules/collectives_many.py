"""Detects collectives-many: see pages/collectives-many.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.communication.host_collectives import HostCollectives
from traceanalyzer.analyzers.optimizer.passes import Passes
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("collectives-many")
_MOST = 0.9
"""Own choice: a tenth of the messages still costs a tenth of the latency."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    on_host = facts.find("host_collectives", HostCollectives)
    if on_host is not None:
        yield from _on_host(facts, on_host, limits)
        return
    found = facts.need("communication", Communication)
    if not program.may_train(facts):
        raise Missing(_PAGE.text("inference")())
    rows = [row for row in found.rows if row.mean_ns < limits["mean_ns"]]
    calls = sum(row.calls for row in rows) / facts.steps
    own = facts.need_step_resources()
    time, total = sum(row.total_ns for row in rows), sum(row.total_ns for row in found.rows)
    exposed = (own.exposed_communication_ns or 0.0) * (time / total if total else 0.0)
    if calls <= limits["calls"] or exposed <= limits["exposed_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("kernel", row.operation or "unknown", value=row.calls, unit="count") for row in rows[:5])
    change = TimeSaved(
        "communication",
        (0.0, _MOST * exposed),
        _PAGE.text("basis")(most=_MOST),
        (0.0, _MOST * exposed),
        {"communication": _MOST * exposed},
    )
    params = {"calls": round(calls), "mean": time / sum(row.calls for row in rows), "exposed": exposed}
    yield Draft(
        (Evidence(_PAGE.text("subject")(), calls, limits["calls"], "number", where),), change, params, ceiling="high"
    )


def _on_host(facts: Facts, found: HostCollectives, limits: Mapping[str, float]) -> Iterator[Draft]:
    """All-reduces of the CPU that would fit into fewer buckets."""
    passes, row = facts.find("passes", Passes), next((row for row in found.rows if row.operation == "all_reduce"), None)
    if row is None or row.total_bytes is None or passes is None or not passes.backward_passes:
        return
    calls, size = row.calls / passes.backward_passes, row.total_bytes / passes.backward_passes
    surplus = calls - max(1.0, -(-size // _BUCKET_BYTES)) - 1  # the first bucket of DDP is small by design
    exposed = facts.host_per_step(row.exposed_ns)
    if (
        surplus < limits["surplus"]
        or size >= calls * limits["bytes"]
        or exposed <= limits["exposed_share"] * facts.step_ns
    ):
        return
    shortest = float(row.min_ns)
    fewer = surplus * passes.backward_passes / facts.steps
    most = max(0.0, exposed - shortest)
    change = TimeSaved(
        "host", (min(fewer * shortest, most), most), _PAGE.text("basis-host")(), claims={"communication": most}
    )
    where = (CodePlace("operator", f"gloo: {row.operation}", value=row.calls, unit="count"),)
    params = {"calls": round(row.calls / facts.steps), "mean": row.total_ns / row.calls, "exposed": exposed}
    evidence = Evidence(_PAGE.text("surplus")(), surplus, limits["surplus"], "number", where)
    yield Draft((evidence,), change, params, advice=_PAGE.text("advice-host"), code=_CODE_HOST)


_BUCKET_BYTES = 25 * 2**20
"""Default bucket of DistributedDataParallel (`bucket_cap_mb=25`)."""


_CODE_HOST = "model = DistributedDataParallel(model)  # without bucket_cap_mb"

RULE = _PAGE.rule(trace=_trace)
