"""Detects graph-batch-padded: see pages/graph-batch-padded.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.serving.decode_graphs import DecodeBatch, DecodeGraphs
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("graph-batch-padded")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    batches = facts.need("decode_graphs", DecodeGraphs).batches
    if all(batch.size is None for batch in batches):
        raise Missing(_PAGE.text("no-size")())
    padded = [batch for batch in batches if _padding_ns(batch)]
    rows = sorted(padded, key=lambda batch: (-_padding_ns(batch), batch.requests, batch.start_ns))
    time, padding = sum(batch.steps * batch.median_device_ns for batch in batches), sum(map(_padding_ns, rows))
    share = padding / time if time else 0.0
    if share < limits["share"] or not rows:
        return
    steps = sum(batch.steps for batch in batches)
    first = rows[0]
    params = {
        "padded": sum(batch.steps for batch in rows),
        "steps": steps,
        "requests": first.requests,
        "size": first.size,
        "share": share,
    }
    evidence = Evidence(_PAGE.text("subject")(), share, limits["share"], "share", tuple(map(_place, rows[:5])))
    yield Draft(
        (evidence,),
        TimeSaved("gpu", (0.0, padding / steps), _PAGE.text("basis")()),
        params,
        ceiling="low",
        summary=None if first.is_exact else _PAGE.text("summary-at-least"),
    )


def _padding_ns(batch: DecodeBatch) -> float:
    """Time of the GPU in all steps of a batch, times the padded share of the graph's batch."""
    return batch.steps * batch.median_device_ns * (batch.size - batch.requests) / batch.size if batch.size else 0.0


def _place(batch: DecodeBatch) -> CodePlace:
    return CodePlace("step", batch.longest, value=batch.median_device_ns, unit="ns", start_ns=batch.start_ns)


RULE = _PAGE.rule(trace=_trace)
