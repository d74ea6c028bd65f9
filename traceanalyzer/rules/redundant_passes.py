"""Detects redundant-passes: see pages/redundant-passes.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.discarded import Discarded
from traceanalyzer.analyzers.optimizer.passes import Passes
from traceanalyzer.analyzers.optimizer.repeated_passes import RepeatedForward
from traceanalyzer.analyzers.optimizer.unused import UnusedForward
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import BACKWARD
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("redundant-passes")
_LEAST = 0.9
"""Least part of the time that is saved (own choice, explained on the rule's page)."""
_MOST_ON_CPU = 1.5
"""Most that goes away on a CPU, over the time of the passes (measured in the lab, explained on the rule's page)."""
_OF_UPDATES = 0.5
"""Least part of the updates with a repeated pass (own choice: a validation now and then is wanted)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    passes = facts.need("passes", Passes)
    if passes.discarded is not None and passes.discarded.passes >= limits["discarded_passes"]:
        yield _discarded(facts, passes, passes.discarded, limits["discarded_passes"])
    for row in passes.unused:
        if row.updates >= limits["unused_updates"]:
            yield _unused(facts, row, limits["unused_updates"])
    found = passes.repeated
    if found is not None and found.updates >= max(limits["unused_updates"], _OF_UPDATES * passes.updates):
        yield _repeated(facts, passes, found, limits["unused_updates"])


def _discarded(facts: Facts, passes: Passes, found: Discarded, limit: float) -> Draft:
    where = tuple(CodePlace("time", "backward", None, w.host_ns, "ns", w.start_ns, BACKWARD()) for w in found.examples)
    change = _change(facts, found.device_ns, found.host_ns)
    params = {"passes": found.passes, "all": passes.backward_passes, "updates": passes.updates}
    evidence = Evidence(_PAGE.text("discarded")(), found.passes, limit, "count", where)
    return Draft((evidence,), change, {**params, "time": _time(facts, found.device_ns, found.host_ns)})


def _unused(facts: Facts, row: UnusedForward, limit: float) -> Draft:
    place = CodePlace("module", row.name, row.input_shapes or None, row.host_ns, "ns", row.start_ns)
    change = _change(facts, row.device_ns, row.host_ns)
    params = {"module": row.name.removeprefix("nn.Module: "), "calls": row.calls, "unused": row.unused_calls}
    params |= {"updates": row.updates, "time": _time(facts, row.device_ns, row.host_ns)}
    evidence = Evidence(_PAGE.text("unused")(), row.updates, limit, "count", (place,))
    return Draft((evidence,), change, params, confidence="C", summary=_PAGE.text("summary-unused"))


def _repeated(facts: Facts, passes: Passes, found: RepeatedForward, limit: float) -> Draft:
    """A forward pass without autograd, beside the same one that trains."""
    place = CodePlace("operator", found.name, found.input_shapes or None, found.host_ns, "ns", found.start_ns)
    change = _change(facts, found.device_ns, found.host_ns)
    time = _time(facts, found.device_ns, found.host_ns)
    params = {"passes": found.passes, "operators": found.operators, "updates": passes.updates, "time": time}
    evidence = Evidence(_PAGE.text("repeated")(), found.updates, limit, "count", (place,))
    return Draft(
        (evidence,),
        change,
        params,
        ceiling="medium",
        confidence="C",
        summary=_PAGE.text("summary-repeated"),
        advice=_PAGE.text("advice-repeated"),
    )


def _change(facts: Facts, device_ns: int, host_ns: int) -> TimeSaved:
    """The saving on the resource that bounds the step, because a pass takes both host and GPU time."""
    on_gpu, time = _is_on_gpu(facts, device_ns), _time(facts, device_ns, host_ns)
    if Processor.of(facts).is_cpu:
        basis = _PAGE.text("basis-cpu")(least=_LEAST, most=_MOST_ON_CPU)
        return TimeSaved("host", (_LEAST * time, min(_MOST_ON_CPU * time, facts.step_ns)), basis)
    return TimeSaved("gpu" if on_gpu else "host", (_LEAST * time, time), _PAGE.text("basis")(least=_LEAST))


def _time(facts: Facts, device_ns: int, host_ns: int) -> float:
    """Time of the passes per step, of the processor that takes longer."""
    if _is_on_gpu(facts, device_ns):
        return facts.gpu_per_step(device_ns)
    processor = Processor.of(facts)
    return processor.per_step(host_ns) if processor.is_cpu else facts.host_per_step(host_ns)


def _is_on_gpu(facts: Facts, device_ns: int) -> bool:
    return bool(device_ns) and (facts.resources.gpu_ns or 0) >= (facts.resources.host_ns or 0)


RULE = _PAGE.rule(trace=_trace)
