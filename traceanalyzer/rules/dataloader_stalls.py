"""Detects dataloader-stalls: see pages/dataloader-stalls.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.loader import DataLoader, Loader
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("dataloader-stalls")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    loaders = facts.need("dataloader", DataLoader).loaders
    judged = [loader for loader in loaders if loader.calls >= limits["calls"]]
    if not judged:
        most = max((loader.calls for loader in loaders), default=0)
        raise Missing(_PAGE.text("few")(calls=most, least=int(limits["calls"])))
    for loader in judged:
        yield from _judge(facts, loader, limits)


def _judge(facts: Facts, loader: Loader, limits: Mapping[str, float]) -> Iterator[Draft]:
    usual = max(loader.median_ns, 1.0)
    where = tuple(
        CodePlace("operator", loader.name, value=wait.duration_ns, unit="ns", start_ns=wait.start_ns)
        for wait in loader.longest
    )
    evidence, excess, calls = [], 0.0, 0
    if loader.p95_ns > limits["p95_medians"] * usual:
        evidence.append(Evidence(_PAGE.text("p95")(), loader.p95_ns / usual, limits["p95_medians"], "number", where))
        excess, calls = loader.excess_ns, loader.long_calls
    if loader.first_ns > limits["first_medians"] * usual:
        evidence.append(
            Evidence(_PAGE.text("first")(), loader.first_ns / usual, limits["first_medians"], "number", where)
        )
        excess, calls = excess + loader.first_excess_ns, calls + 1
    if not evidence or facts.host_per_step(excess) < limits["gain_share"] * facts.step_ns:
        return
    change = _change(facts.host_per_step(loader.excess_ns if loader.p95_ns > limits["p95_medians"] * usual else 0))
    params = {"calls": calls, "all": loader.calls, "usual": loader.median_ns, "excess": excess}
    yield Draft(tuple(evidence), change, params, severity="low", ceiling="high")


def _change(per_step: float) -> TimeSaved | None:
    """What long waits cost in each step; a late first batch is not part of a typical step, so it has no saving."""
    if not per_step:
        return None
    return TimeSaved("loader", (0.0, per_step), _PAGE.text("basis")(), (0.0, per_step), {"loader": per_step})


RULE = _PAGE.rule(trace=_trace)
