"""What bounds a run, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.analyzers.kernel_classes import KernelClasses
from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Combined, Headline
from traceanalyzer.rules.budget import Budget
from traceanalyzer.rules.facts import Facts, Missing
from traceanalyzer.trace.kernel_classes import KernelClass, kernel_class

_DOMINANT = 0.5
"""Own choice: what takes half of a step is what to look at first."""
_COMPUTE = frozenset({"gemm", "convolution", "attention"})
"""Classes of kernels that arithmetic bounds at the sizes of training; all others mostly move data."""

_WITH_GPU = {
    "input": Text(
        "headline-input",
        "Bound by input: for {time:ns} of each step of {step:ns} ({share:share}) the GPU does nothing while the "
        "program waits for its DataLoader.",
    ),
    "host": Text(
        "headline-host",
        "Bound by the host: for {time:ns} of each step of {step:ns} ({share:share}) the GPU does nothing because the "
        "CPU gives it no work.",
    ),
    "gpu-compute": Text(
        "headline-gpu-compute",
        "Bound by GPU compute: the GPU works for {time:ns} of each step of {step:ns} ({share:share}), mostly on matrix "
        "products, convolutions and attention.",
    ),
    "gpu-memory": Text(
        "headline-gpu-memory",
        "Bound by GPU memory: the GPU works for {time:ns} of each step of {step:ns} ({share:share}), mostly on "
        "operations that move data.",
    ),
    "communication": Text(
        "headline-communication",
        "Bound by communication: for {time:ns} of each step of {step:ns} ({share:share}) the GPU only communicates, or "
        "waits for other ranks.",
    ),
    "none": Text(
        "headline-none",
        "Nothing dominates: the largest part of each step of {step:ns} is {part} with {share:share}.",
        note="part is one of the headline-part texts",
    ),
}
_WITHOUT_GPU = {
    "input": Text(
        "headline-cpu-input",
        "Bound by input: {time:ns} of each step of {step:ns} ({share:share}) is waiting for the DataLoader. No GPU was "
        "recorded.",
    ),
    "host": Text(
        "headline-cpu-host",
        "Bound by the CPU: it works for {time:ns} of each step of {step:ns} ({share:share}). No GPU was recorded.",
    ),
}
_OF_TABLE = {
    "input": Text(
        "headline-table-input",
        "Bound by input: at least {share:share} of the profiled time ({time:ns} of {step:ns} per step) is waiting for "
        "the DataLoader that nothing else can hide.",
    ),
    "host": Text(
        "headline-table-host",
        "Bound by the host: {share:share} of the profiled time ({time:ns} of {step:ns} per step) is CPU work, and the "
        "GPU works for less.",
    ),
    "gpu-compute": Text(
        "headline-table-gpu-compute",
        "Bound by GPU compute: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "matrix products, convolutions and attention.",
    ),
    "gpu-memory": Text(
        "headline-table-gpu-memory",
        "Bound by GPU memory: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "operations that move data.",
    ),
}


@dataclass(frozen=True)
class _Parts:
    """Times of a step by what bounds it; they sum to at most the step."""

    times: dict[str, float]
    texts: dict[str, Text]


def headline(facts: Facts, combined: Combined | None) -> Headline:
    """The part of the step that takes half of it or more, else that nothing dominates."""
    found = _of_table(facts) if facts.table is not None else _of_trace(facts)
    bound = max(found.times, key=lambda name: found.times[name])
    step = facts.step_ns
    share = found.times[bound] / step if step else None
    text = found.texts.get(bound)
    params = {"time": found.times[bound], "step": step, "share": share}
    if text is None or share is None or share < _DOMINANT:
        message = _WITH_GPU["none"](step=step, share=share, part=bound)
        return Headline(facts.run, "none", message, share, facts.resources, combined)
    return Headline(facts.run, bound, text(**params), share, facts.resources, combined)


def _of_trace(facts: Facts) -> _Parts:
    resources = facts.need("resources", StepResources)
    loader, step = resources.exposed_loader_ns, resources.step_ns
    if resources.gpu_ns is None:
        return _Parts({"input": loader, "host": step - loader}, _WITHOUT_GPU)
    communication = resources.exposed_communication_ns or 0.0
    times = {
        "input": loader,
        "communication": communication,
        _gpu_bound(facts): resources.gpu_ns - communication,
        "host": step - loader - resources.gpu_ns,
    }
    return _Parts(times, _WITH_GPU)


def _of_table(facts: Facts) -> _Parts:
    budget = Budget.of(facts.resources, is_estimate=True)
    critical = budget.critical
    if critical == "loader":
        return _Parts({"input": budget.cap("loader", budget.loader)}, _OF_TABLE)
    if critical == "host":
        return _Parts({"host": budget.host}, _OF_TABLE if budget.gpu else _WITHOUT_GPU)
    return _Parts({_gpu_bound(facts): budget.gpu}, _OF_TABLE)


def _gpu_bound(facts: Facts) -> str:
    """`gpu-compute` if more of the classified kernel time computes than moves data."""
    if facts.table is None:
        found = facts.find("kernel_classes", KernelClasses)
        times = {row.name: row.total_ns for row in found.rows} if found else {}
    else:
        times = _printed_classes(facts)
    compute = sum(ns for name, ns in times.items() if name in _COMPUTE)
    return "gpu-compute" if 2 * compute >= sum(times.values()) else "gpu-memory"


def _printed_classes(facts: Facts) -> dict[str, int]:
    """Device time by class of kernel, of the rows that are printed."""
    times: dict[str, int] = {}
    try:
        rows = facts.kernels
    except Missing:
        return times
    for row in rows:
        known: KernelClass | None = kernel_class(row.name)
        if known is not None:
            times[known.value] = times.get(known.value, 0) + row.total_ns
    return times
