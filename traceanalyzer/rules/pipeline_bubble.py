"""Detects pipeline-bubble: see pages/pipeline-bubble.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("pipeline-bubble")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("passes", Passes).pipeline
    if found is None or found.waiting_ns <= found.other_ns:
        return
    time = found.waiting_ns / found.steps
    share = time / facts.step_ns
    if share <= limits["waiting_share"]:
        return
    where = tuple(
        CodePlace("time", wait.place, value=wait.time_ns, unit="ns", start_ns=wait.start_ns) for wait in found.examples
    )
    evidence = Evidence(_PAGE.text("subject")(), share, limits["waiting_share"], "share", where)
    claims = {"communication": time}
    if found.is_on_host:
        change = TimeSaved("host", (0.0, time), _PAGE.text("basis-host")(), claims=claims)
    else:
        stages = 3 if found.is_between else 2
        bubble = facts.step_ns * (stages - 1) / (found.micro_batches + stages - 1)
        saved = min(time, bubble) / 2, time
        change = TimeSaved("communication", saved, _PAGE.text("basis")(stages=stages), saved, claims)
    params = {"micro_batches": found.micro_batches, "time": time, "step": facts.step_ns, "share": share}
    code = (_PAGE.code or "").replace("n_microbatches=16", f"n_microbatches={2 * found.micro_batches}")
    yield Draft((evidence,), change, params, ceiling="high", code=code)


RULE = _PAGE.rule(trace=_trace)
