"""Detects decode-not-in-graph: see pages/decode-not-in-graph.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.serving.decode_graphs import DecodeBatch, DecodeGraphs
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("decode-not-in-graph")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    batches = facts.need("decode_graphs", DecodeGraphs).batches
    graphs = [batch for batch in batches if batch.in_graph]
    if not graphs:
        raise Missing(_PAGE.text("no-graph")())
    eager = [batch for batch in batches if not batch.in_graph]
    rows = [batch for batch in eager if _excess(batch, graphs) >= limits["idle_share"]]
    if not rows:
        return
    rows.sort(key=lambda batch: (-batch.steps * batch.median_idle_ns, batch.requests))
    first, other = rows[0], _nearest(rows[0], graphs)
    params = {
        "eager": sum(batch.steps for batch in rows),
        "steps": sum(batch.steps for batch in batches),
        "requests": first.requests,
        "time": first.median_duration_ns,
        "idle": first.median_idle_ns,
        "other": other.requests,
        "usual": other.median_duration_ns,
        "rest": other.median_idle_ns,
    }
    largest = max(max(batch.requests, batch.size or 0) for batch in graphs)
    is_above = min(batch.requests for batch in rows) > largest
    evidence = Evidence(
        _PAGE.text("subject")(), _excess(first, graphs), limits["idle_share"], "share", tuple(map(_place, rows[:5]))
    )
    yield Draft((evidence,), params=params, severity="low", advice=None if is_above else _PAGE.text("advice-between"))


def _nearest(batch: DecodeBatch, graphs: Sequence[DecodeBatch]) -> DecodeBatch:
    """The steps in graphs whose number of requests is nearest."""
    return min(graphs, key=lambda other: (abs(other.requests - batch.requests), other.requests, other.start_ns))


def _excess(batch: DecodeBatch, graphs: Sequence[DecodeBatch]) -> float:
    """Idle time of the GPU beyond that of the nearest steps in graphs, over the duration of the step."""
    if not batch.median_duration_ns:
        return 0.0
    return (batch.median_idle_ns - _nearest(batch, graphs).median_idle_ns) / batch.median_duration_ns


def _place(batch: DecodeBatch) -> CodePlace:
    return CodePlace("step", batch.longest, value=batch.median_idle_ns, unit="ns", start_ns=batch.start_ns)


RULE = _PAGE.rule(trace=_trace)
