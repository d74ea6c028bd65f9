"""Detects dataloader-bound: see pages/dataloader-bound.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.analyzers.loader.epochs import LoaderEpochs
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _loader, _owners
from traceanalyzer.rules.engine import program, settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.step_breakdown import Average, Step, StepBreakdown

_PAGE = page("dataloader-bound")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    breakdown = facts.need("step_breakdown", StepBreakdown)
    average = facts.step_parts
    if average is None or not average.duration_ns or _owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    wait = _wait(facts, average)
    share = wait / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = [Evidence(_PAGE.text("subject")(), share, limits["exposed_share"], "share", _worst(breakdown.steps))]
    evidence += _in_process(facts, average, limits["exposed_share"])
    params: dict[str, Any] = {"wait": wait, "step": average.duration_ns, "share": share}
    made_by = program.loader_maker(facts)
    if _loader.has_workers(facts):
        if wait > limits["ready_ns"]:
            change = TimeSaved("loader", (0.0, wait), _PAGE.text("basis-workers")(), (0.0, wait), {"loader": wait})
            yield _of_workers(facts, tuple(evidence), change, params)
        return
    if _loader.is_too_short(facts, average):
        yield Draft(tuple(evidence), None, params, severity="info", advice=_PAGE.text("advice-short"), code="")
        return
    saved = _loader.with_workers(facts, average)
    if made_by is not None:
        params |= {"library": made_by.title}
        yield Draft(tuple(evidence), saved, params, advice=_PAGE.text("advice-library"), code=made_by.workers or "")
        return
    advice = _PAGE.text("advice-host") if facts.resources.gpu_ns is None else None
    yield Draft(tuple(evidence), saved, params, advice=advice, code=_loader.starting_code(facts))


def _wait(facts: Facts, average: Average) -> float:
    """Exposed waiting per step, without that at the change of epochs, which is about starting workers."""
    epochs = facts.find("loader_epochs", LoaderEpochs)
    turning = 0.0 if epochs is None else facts.host_per_step(epochs.wait_ns - 2 * epochs.turns * epochs.usual_ns)
    return average.dataloader_ns - min(max(0.0, turning), average.dataloader_ns)


def _of_workers(
    facts: Facts, evidence: tuple[Evidence, ...], change: TimeSaved, params: dict[str, Any], summary: Text | None = None
) -> Draft:
    """The loader already has workers; the trace does not show how many would be enough."""
    workers = settings.workers(facts)
    more = "workers" if workers is None else 2 * workers
    code = f"DataLoader(dataset, num_workers={more}, prefetch_factor=4, persistent_workers=True)"
    if workers is None:
        code += "  # workers: more than now"
        return Draft(evidence, change, params, summary=summary, advice=_PAGE.text("advice-some-workers"), code=code)
    params = {**params, "workers": workers}
    return Draft(evidence, change, params, summary=summary, advice=_PAGE.text("advice-workers"), code=code)


def _in_process(facts: Facts, average: Average, limit: float) -> list[Evidence]:
    """The part of the waiting in which the program itself prepares the batch."""
    found = facts.find("dataloader", DataLoader)
    loaders = list(found.loaders) if found else []
    own, exposed = [row for row in loaders if row.in_process], sum(row.exposed_ns for row in loaders)
    if not own or not exposed:
        return []
    part = sum(row.exposed_ns for row in own) / exposed * average.dataloader_ns / average.duration_ns
    return [Evidence(_PAGE.text("subject-own")(), part, limit, "share", _loader.places(own))] if part > limit else []


def _worst(steps: tuple[Step, ...]) -> tuple[CodePlace, ...]:
    longest = sorted(steps, key=lambda step: (-step.dataloader_ns, step.start_ns))[:5]
    return tuple(CodePlace("step", s.name, value=s.dataloader_ns, unit="ns", start_ns=s.start_ns) for s in longest)


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    table, loader = facts.table, facts.resources.loader_ns
    if table is None or not table.cpu_ns or not loader:
        return
    share = loader * facts.steps / table.cpu_ns
    if share <= limits["host_share"]:
        return
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row) and row.self_cpu_ns]
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_PAGE.text("subject-table")(), share, limits["host_share"], "share", where)
    params = {"wait": loader, "step": facts.step_ns, "share": share}
    if _loader.has_workers(facts):
        change = TimeSaved("loader", (0.0, loader), _PAGE.text("basis-table-workers")(), claims={"loader": loader})
        yield _of_workers(facts, (evidence,), change, params, _PAGE.text("summary-table"))
        return
    change = TimeSaved("loader", (loader, loader), _PAGE.text("basis-table")(), claims={"loader": loader})
    yield Draft((evidence,), change, params, summary=_PAGE.text("summary-table"))


RULE = _PAGE.rule(trace=_trace, table=_table)
