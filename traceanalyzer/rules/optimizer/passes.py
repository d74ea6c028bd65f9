"""Detects passes through the model that cost more than they give.

The rules are redundant-passes, autograd-in-inference, anomaly-mode, activations-recomputed and graph-grows.
"""

from __future__ import annotations

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.analyzers.optimizer import autograd_passes, backward_pass, kept_graphs
from traceanalyzer.analyzers.optimizer.repeated_passes import RepeatedForward
from traceanalyzer.knowledge.kernel_classes import KernelClass, operator_class
from traceanalyzer.rules.engine.change import DeviceWork, HostTime
from traceanalyzer.rules.engine.host_work import need_cpu_steps
from traceanalyzer.rules.engine.places import BACKWARD, FORWARD
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean

_REDUNDANT = page("redundant-passes")
_AUTOGRAD = page("autograd-in-inference")
_ANOMALY = page("anomaly-mode")
_RECOMPUTED = page("activations-recomputed")
_GROWS = page("graph-grows")

_LEAST = 0.9
"""Least part of the time of redundant passes that is saved (own choice, explained on the rule's page)."""
_MOST_ON_CPU = 1.5
"""Most that goes away on a CPU, over the time of the passes (measured in the lab, explained on the rule's page)."""
_MOST_ON_GPU = 1.05
"""The same on a GPU: 1.02 and 1.04 were measured on an H200, because gradients are added up once less."""
_OF_UPDATES = 0.5
"""Least part of the updates with a repeated pass (own choice: a validation now and then is wanted)."""

_BOOKKEEPING = 0.35
"""Greatest share of the host time that is saved (own choice: 0.27 was measured on an H200)."""
_LONG_PRODUCT_NS = 100_000
"""A product or attention that takes longer costs no more with a graph (own choice; of a program that is mostly such, 3
and 4 % were saved, of small layers 29 %, of convolutions and batch norms 35 %)."""

_PRODUCTS = frozenset({KernelClass.GEMM, KernelClass.ATTENTION})
_MORE = 1.5
"""Greatest ratio of the saving to the time that can be attributed to anomaly mode (own choice; the lab measured
1.2)."""

_RECOMPUTED_ON_HOST = 0.95, 1.55
"""Least and most that goes away, as a multiple of the recomputation (measured in the lab, explained on the page)."""
_MUCH_AGAIN = 0.15
"""Share of the step from which on it is said even where nobody knows how much memory is free (own choice)."""
_RECOMPUTED_ON_GPU = 0.9, 1.1
"""Least and most that goes away, as a multiple of the recomputation's kernels (1.07 was measured on an H200)."""

_STALE = 0.9, 1.5
"""Least and most that goes away, as a multiple of the time of functions of earlier steps (own choice, see the page)."""


def _redundant(facts: Facts, limits: Limits) -> Drafts:
    passes = facts.need("passes", autograd_passes.Passes)
    if passes.discarded is not None and passes.discarded.passes >= limits["discarded_passes"]:
        yield _discarded(facts, passes, passes.discarded, limits)
    for row in passes.unused:
        if row.updates >= limits["unused_updates"]:
            yield _unused(facts, row, limits)
    repeated = passes.repeated
    if repeated is not None and repeated.updates >= max(limits["unused_updates"], _OF_UPDATES * passes.updates):
        yield _repeated(facts, passes, repeated, limits)


def _discarded(facts: Facts, passes: autograd_passes.Passes, row: autograd_passes.Discarded, limits: Limits) -> Draft:
    where = tuple(CodePlace("time", "backward", None, w.host_ns, "ns", w.start_ns, BACKWARD()) for w in row.examples)
    subject = _REDUNDANT.text("discarded")()
    evidence = _REDUNDANT.evidence(limits, "discarded_passes", row.passes, where, subject=subject)
    params = {
        "passes": row.passes,
        "all": passes.backward_passes,
        "updates": passes.updates,
        "time": OfEvents(_time(facts, row)),
    }
    return Draft((evidence,), _without_passes(facts, row), params)


def _unused(facts: Facts, row: autograd_passes.UnusedForward, limits: Limits) -> Draft:
    place = CodePlace("module", row.name, row.input_shapes or None, row.host_ns, "ns", row.start_ns)
    subject = _REDUNDANT.text("unused")()
    evidence = _REDUNDANT.evidence(limits, "unused_updates", row.updates, (place,), subject=subject)
    params = {
        "module": row.name.removeprefix("nn.Module: "),
        "calls": row.calls,
        "unused": row.unused_calls,
        "updates": row.updates,
        "time": OfEvents(_time(facts, row)),
    }
    summary = _REDUNDANT.text("summary-unused")
    return Draft((evidence,), _without_passes(facts, row), params, confidence="C", summary=summary)


def _repeated(facts: Facts, passes: autograd_passes.Passes, row: RepeatedForward, limits: Limits) -> Draft:
    """A forward pass without autograd, beside the same one that trains."""
    place = CodePlace("operator", row.name, row.input_shapes or None, row.host_ns, "ns", row.start_ns)
    subject = _REDUNDANT.text("repeated")()
    params = {
        "passes": row.passes,
        "operators": row.operators,
        "updates": passes.updates,
        "time": OfEvents(_time(facts, row)),
    }
    return Draft(
        (_REDUNDANT.evidence(limits, "unused_updates", row.updates, (place,), subject=subject),),
        _without_passes(facts, row),
        params,
        ceiling="medium",
        confidence="C",
        summary=_REDUNDANT.text("summary-repeated"),
        advice=_REDUNDANT.text("advice-repeated"),
    )


_Pass = autograd_passes.Discarded | autograd_passes.UnusedForward | RepeatedForward


def _without_passes(facts: Facts, row: _Pass) -> DeviceWork | HostTime:
    """The saving on the resource that bounds the step, because a pass takes both host and GPU time."""
    time, on_device = _time(facts, row), _bounds_on_gpu(facts, row)
    at = autograd_passes.passes_at(row=row, on_device=on_device)
    if Processor.of(facts).is_cpu:
        basis = _REDUNDANT.text("basis-cpu")(least=_LEAST, most=_MOST_ON_CPU)
        return HostTime((_LEAST * time, min(_MOST_ON_CPU * time, facts.step_ns)), basis, at=at)
    basis = _REDUNDANT.text("basis-2")(least=_LEAST, more=_MOST_ON_GPU - 1)
    kind = DeviceWork if on_device else HostTime
    return kind((_LEAST * time, min(_MOST_ON_GPU * time, facts.step_ns)), basis, at=at)


def _time(facts: Facts, row: _Pass) -> float:
    """Time of the passes per step, of the processor that takes longer."""
    if _bounds_on_gpu(facts, row):
        return facts.on_device(row.device_ns)
    processor = Processor.of(facts)
    return processor.per_step(row.host_ns) if processor.is_cpu else facts.per_step(row.host_ns)


def _bounds_on_gpu(facts: Facts, row: _Pass) -> bool:
    """Whether the passes ran on a GPU, and the GPU works longer in a step than the host."""
    return bool(row.device_ns) and _is_gpu_busier(facts)


def _is_gpu_busier(facts: Facts) -> bool:
    """Whether the GPU works at least as long in a step as the host."""
    return (facts.resources.gpu_ns or 0) >= (facts.resources.host_ns or 0)


def _autograd(facts: Facts, limits: Limits) -> Drafts:
    passes = facts.find("passes", autograd_passes.Passes)
    if passes is None:  # nothing has a number of autograd, so gradients are off
        facts.need("operators", object)
        return
    recording = facts.find("recording", Recording)
    may_train = facts.capture is not None and facts.capture.facts.may_train  # after the recording, too
    if may_train or (recording is not None and recording.workload == "training"):
        raise Missing(_AUTOGRAD.text("trains")())
    if passes.backward_passes or passes.updates or passes.graph_passes < limits["forward_passes"]:
        return
    where = CodePlace("time", "forward", None, passes.graph_host_ns, "ns", passes.graph_start_ns, FORWARD())
    is_cpu = facts.resources.gpu_ns is None
    most = _BOOKKEEPING * max(0.0, facts.per_step(passes.graph_host_ns) - (_long_products(facts) if is_cpu else 0.0))
    params = {
        "passes": passes.graph_passes,
        "functions": passes.graph_functions,
        "time": OfEvents(facts.resources.host_ns or 0.0),
    }
    evidence = _AUTOGRAD.evidence(limits, "forward_passes", passes.graph_passes, (where,))
    basis = _AUTOGRAD.text("basis-cpu") if is_cpu else _AUTOGRAD.text("basis")
    yield Draft((evidence,), HostTime((0.0, most), basis(most=_BOOKKEEPING)), params, severity="low")


def _long_products(facts: Facts) -> float:
    """Time per step in ns of products and attention that take long on a CPU."""
    rows = [row for row in facts.operators if row.host_self_ns > _LONG_PRODUCT_NS * row.calls]
    products = (row.host_self_ns for row in rows if operator_class(row.name) in _PRODUCTS)
    return facts.per_step(sum(products))


def _anomaly(facts: Facts, limits: Limits) -> Drafts:
    checks = facts.find("nan_checks", backward_pass.NanChecks)
    if checks is None or not checks.functions or not checks.steps:
        facts.need("operators", object)
        return
    share = checks.checked / checks.functions
    if share < limits["checked_share"] or checks.checked < limits["functions"]:
        return
    time = mean(checks.checks_ns + checks.stacks_ns, checks.steps)
    where = CodePlace("operator", "aten::isnan", None, mean(checks.checks_ns, checks.steps), "ns", checks.start_ns)
    interval = (min(time, facts.step_ns), min(_MORE * time, facts.step_ns))
    change = HostTime(interval, _ANOMALY.text("basis")(), at=backward_pass.nan_checks_at())
    params = {
        "checks": mean(checks.checked, checks.steps),
        "time": OfEvents(time),
        "step": facts.step_ns,
        "stacks": mean(checks.stacks_ns, checks.steps),
    }
    evidence = _ANOMALY.evidence(limits, "checked_share", share, (where,))
    yield Draft((evidence,), change, params, severity="medium")


def _recomputed(facts: Facts, limits: Limits) -> Drafts:
    again = facts.find("recomputation", backward_pass.Recomputation)
    if again is None or not again.steps:
        facts.need("operators", object)
        return
    is_recorded = facts.resources.gpu_ns is not None and again.device_ns is not None
    if not is_recorded:
        need_cpu_steps(facts)
    used = _used_memory(facts) if is_recorded else None
    on_device = is_recorded and _is_gpu_busier(facts)
    time = mean((again.device_ns or 0) if on_device else again.host_ns, again.steps)
    share = time / facts.step_ns
    if share <= limits["share"] or (used or 0.0) >= limits["used_share"]:
        return
    where = CodePlace("time", "backward", None, mean(again.host_ns, again.steps), "ns", again.start_ns, BACKWARD())
    params = {
        "segments": mean(again.segments, again.steps),
        "time": OfEvents(time),
        "share": OfEvents(time, is_share=True),
        "operators": ", ".join(again.names[:3]),
    }
    evidence = _RECOMPUTED.evidence(limits, "share", share, (where,))
    ceiling = _ceiling(used, share, is_recorded=is_recorded)
    change = _kept(time, facts.step_ns, on_device=on_device, may_fit=ceiling == "low")
    yield Draft((evidence,), change, params, ceiling=ceiling)


def _ceiling(used: float | None, share: float, *, is_recorded: bool) -> str:
    """How severe a finding about so much of a step is, by what is known of the memory of the device."""
    if used is not None:
        return "medium"
    return "low" if is_recorded and share >= _MUCH_AGAIN else "info"


def _kept(time: float, step_ns: float, *, on_device: bool, may_fit: bool) -> DeviceWork | HostTime:
    """The saving where activations are kept, in the resource that bounds the step; maybe none if they may not fit."""
    least, most = _RECOMPUTED_ON_GPU if on_device else _RECOMPUTED_ON_HOST
    least = 0.0 if may_fit else least
    basis = _RECOMPUTED.text("basis-gpu-2") if on_device else _RECOMPUTED.text("basis-cpu")
    kind = DeviceWork if on_device else HostTime
    interval = least * time, min(most * time, step_ns)
    return kind(interval, basis(least=least, more=most - 1), at=backward_pass.recomputed_at(on_device=on_device))


def _grows(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("kept_graphs", kept_graphs.KeptGraphs)
    time = mean(found.host_ns, found.steps)
    if found.growing_steps < limits["steps"] or time <= limits["share"] * facts.step_ns:
        return
    least, most = _STALE
    where = CodePlace("time", "backward", None, time, "ns", found.start_ns, BACKWARD())
    evidence = _GROWS.evidence(limits, "steps", found.growing_steps, (where,), subject=_GROWS.text("subject")())
    interval = least * time, min(most * time, facts.step_ns)
    change = HostTime(interval, _GROWS.text("basis")(least=least, most=most), at=kept_graphs.stale_at())
    params = {"first": found.first, "last": found.last, "time": OfEvents(time), "step": facts.step_ns}
    yield Draft((evidence,), change, params)


def _used_memory(facts: Facts) -> float | None:
    """Peak of allocated memory over the device's memory, of the device that uses most; None if it is not known."""
    memory = facts.find("memory", MemoryUse)
    return max((peak / capacity for _, peak, capacity in memory.with_peak()), default=None) if memory else None


RULES = (
    _REDUNDANT.rule(trace=_redundant),
    _AUTOGRAD.rule(trace=_autograd),
    _ANOMALY.rule(trace=_anomaly),
    _RECOMPUTED.rule(trace=_recomputed),
    _GROWS.rule(trace=_grows),
)
