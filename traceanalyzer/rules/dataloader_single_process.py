"""Detects dataloader-single-process: see pages/dataloader-single-process.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _loader, _owners
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.host_waits import is_in_process

_PAGE = page("dataloader-single-process")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    loaders = facts.need("dataloader", DataLoader).loaders
    average = facts.step_parts
    own = [loader for loader in loaders if loader.in_process]
    exposed = sum(loader.exposed_ns for loader in loaders)
    if average is None or not average.duration_ns or not own or not exposed:
        return
    if _owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    part = sum(loader.exposed_ns for loader in own) / exposed
    wait = average.dataloader_ns * part
    share = wait / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = Evidence(_PAGE.text("subject")(), share, limits["exposed_share"], "share", _loader.places(own))
    change = None if _loader.is_too_short(facts, average, part) else _loader.with_workers(facts, average, part)
    yield Draft(
        (evidence,),
        change,
        {"wait": wait, "step": average.duration_ns, "share": share},
        code=_loader.starting_code(facts),
    )


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row) and is_in_process(row.name)]
    total = sum(row.self_cpu_ns or 0 for row in rows)
    if facts.table is None or not facts.table.cpu_ns or not total:
        return
    share = total / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_PAGE.text("subject-table")(), share, limits["host_share"], "share", where)
    wait = facts.host_per_step(total)
    change = TimeSaved("loader", (wait, wait), _PAGE.text("basis-table")(), claims={"loader": wait})
    yield Draft((evidence,), change, {"wait": wait, "step": facts.step_ns, "share": share})


RULE = _PAGE.rule(trace=_trace, table=_table)
