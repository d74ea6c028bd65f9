"""Detects dataloader-too-many-workers: see pages/dataloader-too-many-workers.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _loader
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("dataloader-too-many-workers")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    known, average = facts.capture.facts if facts.capture else None, facts.step_parts
    if known is None or known.host.cpus is None or known.loaders is None:
        raise Missing(_PAGE.text("no-capture")())
    workers = max((loader.workers or 0 for loader in known.loaders), default=0)
    if average is None or not average.duration_ns:
        return
    wait = average.dataloader_ns / average.duration_ns
    if workers <= limits["per_core"] * known.host.cpus or wait > limits["wait_share"]:
        return
    found = facts.find("dataloader", DataLoader)
    where = _loader.places(list(found.loaders) if found else [])
    evidence = (
        Evidence(_PAGE.text("subject")(), workers / known.host.cpus, limits["per_core"], "number", where),
        Evidence(_PAGE.text("wait")(), wait, limits["wait_share"], "share", where),
    )
    fewer = max(1, known.host.cpus // 2)
    params = {"workers": workers, "cores": known.host.cpus}
    code = f"DataLoader(dataset, num_workers={fewer}, persistent_workers=True)  # or 0, if batches are cheap"
    yield Draft(evidence, None, params, severity="medium", code=code)


RULE = _PAGE.rule(trace=_trace)
