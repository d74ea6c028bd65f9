"""What bounds a run, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from traceanalyzer.analyzers.kernel_classes import KernelClasses
from traceanalyzer.analyzers.launches import Launches
from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.analyzers.step_breakdown import StepBreakdown
from traceanalyzer.analyzers.synchronizations import Synchronizations
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Headline
from traceanalyzer.rules.budget import Budget
from traceanalyzer.rules.facts import Facts, Missing
from traceanalyzer.trace.kernel_classes import kernel_class

_BUSY = 0.8
"""Own choice: of a GPU that works for four fifths of a step, it is the GPU's work that has to shrink."""
_WORTH = 0.15
"""Own choice: a smaller loss does not bound a run; the findings tell what it is worth."""
_DEVICE_OPERATOR = re.compile(r"cudnn|cuda|miopen|nccl|rccl|xccl|hccl|mtia|flash_attention", re.IGNORECASE)
"""Operators that only run on an accelerator."""
_LOSSES = frozenset({"input", "host", "communication"})
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
}
_WITHOUT_GPU = {
    "input": Text(
        "headline-cpu-input",
        "Bound by input: {time:ns} of each step of {step:ns} ({share:share}) is waiting for the DataLoader. No GPU was "
        "recorded.",
    ),
    "communication": Text(
        "headline-cpu-communication",
        "Bound by communication: {time:ns} of each step of {step:ns} ({share:share}) are collectives. No GPU was "
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
_NOTHING = Text(
    "headline-none",
    "Nothing dominates a step of {step:ns}: the GPU works for {busy:share} of it, and no single cause "
    "explains the rest.",
)
_START_UP = Text(
    "headline-start-up",
    "This recording is mostly start-up: for {time:ns} of {step:ns} ({share:share}) code is loaded or compiled, or "
    "memory taken, which does not come again. Record a few steps after a warm-up.",
)
_NO_GPU = Text(
    "headline-no-gpu",
    "What bounds a step of {step:ns} cannot be told: the recording has no events of the device.",
)


@dataclass(frozen=True)
class _Parts:
    """Times of a step by what bounds it; they sum to at most the step."""

    times: dict[str, float]
    texts: dict[str, Text]


def headline(facts: Facts, combined: Combined | None) -> Headline:
    """What takes most of a step: the GPU if it works nearly always, else what it waits for."""
    found = _of_table(facts) if facts.table is not None else _of_trace(facts)
    bound = None if facts.is_startup else _bound(found.times, facts.step_ns)
    if bound is None:
        largest = max(found.times.values(), default=0.0)
        share = largest / facts.step_ns if facts.step_ns else None
        return Headline(facts.run, "none", _nothing(facts), share, facts.resources, combined)
    share = found.times[bound] / facts.step_ns
    message = found.texts[bound](time=found.times[bound], step=facts.step_ns, share=share)
    return Headline(facts.run, bound, message, share, facts.resources, combined)


def _bound(times: Mapping[str, float], step: float) -> str | None:
    """The GPU if it is busy, else the largest loss if it is worth naming."""
    if not step:
        return None
    gpu = max((name for name in times if name.startswith("gpu-")), key=lambda name: times[name], default=None)
    if gpu is not None and times[gpu] >= _BUSY * step:
        return gpu
    losses = {name: ns for name, ns in times.items() if name in _LOSSES and ns >= _WORTH * step}
    return max(losses, key=lambda name: losses[name], default=None)


def _nothing(facts: Facts) -> Message:
    if facts.is_startup:
        startup = facts.idle_per_step("compilation", "allocation")
        return _START_UP(time=startup, step=facts.step_ns, share=startup / facts.step_ns)
    busy = facts.resources.gpu_ns
    if busy is None:
        return _NO_GPU(step=facts.step_ns)
    return _NOTHING(step=facts.step_ns, busy=busy / facts.step_ns if facts.step_ns else None)


def _of_trace(facts: Facts) -> _Parts:
    resources = facts.need("resources", StepResources)
    loader, step = resources.exposed_loader_ns, resources.step_ns
    if resources.gpu_ns is None:
        return _Parts(_without_device(facts, loader), _WITHOUT_GPU)
    communication = resources.exposed_communication_ns or 0.0
    times = {
        _gpu_bound(facts): resources.gpu_ns - communication,
        "input": loader,
        "communication": communication,
        "host": _starved(facts, resources, step - resources.gpu_ns - loader),
    }
    return _Parts(times, _WITH_GPU)


def _starved(facts: Facts, resources: StepResources, idle: float) -> float:
    """Idle time that a working host explains."""
    if facts.resources.host_ns is None:
        return 0.0
    return max(0.0, min(resources.host_ns, idle - facts.idle_per_step("compilation", "allocation", "unknown")))


def _without_device(facts: Facts, loader: float) -> dict[str, float]:
    """A training on the CPU is bound by it; a recording that misses its device tells nothing."""
    launched = facts.find("launches", Launches) or facts.find("synchronizations", Synchronizations)
    found = facts.find("operators", Operators)
    on_device = any(_DEVICE_OPERATOR.search(row.name) for row in found.rows) if found else False
    if launched or on_device or (facts.summary and facts.summary.devices):
        return {"input": loader}
    breakdown = facts.find("step_breakdown", StepBreakdown)
    collectives = breakdown.average.communication_ns if breakdown and breakdown.average else 0.0
    return {"input": loader, "communication": collectives, "host": facts.step_ns - loader - collectives}


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
    times = _recorded_classes(facts) if facts.table is None else _printed_classes(facts)
    compute = sum(ns for name, ns in times.items() if name in _COMPUTE)
    return "gpu-compute" if 2 * compute >= sum(times.values()) else "gpu-memory"


def _recorded_classes(facts: Facts) -> dict[str, int]:
    """Kernel time by class; collectives are neither."""
    found = facts.find("kernel_classes", KernelClasses)
    return {row.name: row.total_ns for row in found.rows if row.name != "communication"} if found else {}


def _printed_classes(facts: Facts) -> dict[str, int]:
    """Device time by class of kernel, of the rows that are printed."""
    times: dict[str, int] = {}
    try:
        rows = facts.kernels
    except Missing:
        return times
    for row in rows:
        known = kernel_class(row.name)
        if known is not None:
            times[known.value] = times.get(known.value, 0) + row.total_ns
    return times
