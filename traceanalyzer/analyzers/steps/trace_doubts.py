"""Counts what lowers the confidence of other figures, so that a reader knows how far to trust the trace."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from traceanalyzer.knowledge import frameworks, marks
from traceanalyzer.structure import host_activity, host_waits, typical, unrecorded_work
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.graph_events import graph_labels
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import WHOLE, is_marked, program_steps
from traceanalyzer.structure.recording.workload import workload
from traceanalyzer.structure.steps import NESTED
from traceanalyzer.structure.unrecorded_work import holes
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Loss
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_UNATTRIBUTED = 0.05
"""Share of kernel time without an operator that is worth a warning (own choice: below, no ranking changes)."""

_OPAQUE = 0.2
"""Share of kernels launched by graphs, from which on operators explain little of the device time."""

_FEW_STEPS = 3
"""Steps below which a mean says little."""

_OWN_LOOP = frozenset({"training", "inference", "micro-benchmark", "start-up"})
"""Kinds of programs whose author writes the loop, and so can mark its steps."""

_WARM_UP = 1.5
"""A first step of more than this times the median of the others is still warming up (own choice)."""

_OWN_WORK = 0.01
"""Share of the typical steps in which the profiler itself works that is worth a warning (own choice: the variation of
steps)."""
_WAITS_FOR_MAC = 0.05
"""Share of the typical steps in which the host waits for a Mac's GPU that is worth a warning (own choice)."""
_LAUNCH = re.compile(r"(cuda|hip|cu)\w{0,32}Launch\w{0,32}Kernel")
_REPAIRED = frozenset({"read-repaired-event", "read-lost-event", "read-damaged-metadata"})


def analyze(context: Context) -> tuple[Loss, ...]:
    """Find all warnings about the recording, in a fixed order."""
    return tuple(
        doubt for check in (_file, _steps, _typical, _recording, _own_work, _crowds, _links) for doubt in check(context)
    )


def _file(context: Context) -> Iterator[Loss]:
    losses = {loss.id: loss.count for loss in context.trace.losses}
    if context.trace.is_cut:
        yield Loss("q-truncated-file", 1)
    if repaired := sum(count for loss, count in losses.items() if loss in _REPAIRED):
        yield Loss("q-repaired-json", repaired)
    info = context.trace.info
    if info.world_size is not None and info.world_size > 1:
        yield Loss("q-single-rank-of-many", 1, {"world_size": info.world_size})


def _steps(context: Context) -> Iterator[Loss]:
    steps = context.steps
    if steps.found_by is None:
        return
    if not is_marked(context):
        yield _unmarked(context)
        return
    if len(steps) < _FEW_STEPS:
        yield Loss("q-few-steps", len(steps))
    if steps.nested:
        yield Loss("q-nested-steps", steps.nested, {"around": NESTED})
    if steps.cut:
        yield Loss("q-last-step-cut", steps.cut)
    length = steps.end_ns - steps.start_ns
    counts = bool(program_steps(context).is_typical[0])
    usual = float(np.median(length[1:])) if len(steps) >= _FEW_STEPS else 0.0
    comes_back = bool((length[len(steps) // 2 :] > _WARM_UP * usual).any())  # as a loader that works in bursts
    if counts and usual and length[0] > _WARM_UP * usual and not comes_back:
        yield Loss("q-warmup-included", 1, {"first": int(length[0]), "median": usual})


def _unmarked(context: Context) -> Loss:
    """How steps were found where the profiler marked none."""
    steps = program_steps(context)
    if steps.found_by != WHOLE:
        return Loss("q-steps-inferred", len(steps), {"mark": frameworks.title(steps.found_by or "")})
    owns_its_loop = workload(context)[0] in _OWN_LOOP
    return Loss("q-no-steps" if owns_its_loop else "q-one-step", 1)


def _typical(context: Context) -> Iterator[Loss]:
    """Steps that the typical step leaves out."""
    if earlier := unrecorded_work.longest_ns(context):
        yield Loss("q-unrecorded-work", 1, {"time": earlier})
    if removed := holes(context).length:
        yield Loss("q-removed-events", 1, {"time": removed})
    steps = program_steps(context)
    whole = len(steps) - steps.is_cut
    if steps.is_cut:  # what was recorded of it says nothing about the length of a step
        yield Loss("q-last-step-cut", 1)
    unlike = [reason for reason in steps.reasons[:whole] if reason is not None]
    if not unlike:
        return
    length, is_typical = (steps.end_ns - steps.start_ns)[:whole], steps.is_typical[:whole]
    if is_typical.all():
        yield Loss("q-unlike-steps-count", len(unlike), {"total": whole})
        return
    counts = zip(steps.reasons[:whole], is_typical, strict=True)
    reasons = [reason for reason, counted in counts if reason is not None and not counted]
    yield Loss(
        "q-steps-left-out",
        len(reasons),
        {
            "total": whole,
            "reasons": sorted(set(reasons)),
            "mean": float(length.mean()),
            "typical": float(length[is_typical].mean()),
        },
    )


def _recording(context: Context) -> Iterator[Loss]:
    trace = context.trace
    counters = any(loss.params.get("category") == marks.COUNTERS for loss in trace.losses)
    if counters:
        yield Loss("q-hardware-counters", 1)
    if not trace.is_cut:  # else what seems not to be recorded may stand in the part that is missing
        yield from _unrecorded(context, counters=counters)
    if len(trace.host) and len(trace.shapes) < 2:
        yield Loss("q-shapes-missing", 1)
    slowing = [name for name in ("with_stack", "record_shapes") if getattr(trace.info.options, name)]
    if "with_stack" in slowing:
        yield Loss("q-stack-overhead", 1, {"options": ", ".join(slowing)})


def _unrecorded(context: Context, *, counters: bool) -> Iterator[Loss]:
    """That a device works of which the recording has no events."""
    trace = context.trace
    launching = int(trace.names.where(lambda n: _LAUNCH.match(n) is not None)[trace.launches.name].sum())
    if launching and not len(trace.device) and not counters:
        yield Loss("q-no-gpu-events", launching)
    elif (
        not len(trace.launches)
        and (sign := unrecorded_work.unread_device(context)) is not None
        and not trace.info.unsupported
    ):
        yield from _of_mac(context, sign) if marks.is_of_mac(sign) else [Loss("q-gpu-not-recorded", 1, {"sign": sign})]


def _of_mac(context: Context, sign: str) -> Iterator[Loss]:
    """That the GPU of a Mac works unrecorded, and how long the host visibly waits for it in the typical steps."""
    yield Loss("q-mac-not-recorded", 1, {"sign": sign})
    host, rows, steps = context.trace.host, unrecorded_work.waits_for_mac(context), typical.times(context)
    time = Intervals.union(host.start_ns[rows], host.end_ns[rows]) & steps
    if time.length >= _WAITS_FOR_MAC * steps.length > 0:
        names = ", ".join(sorted({context.trace.names[code] for code in host.name[rows].tolist()}))
        waits = {"time": time.length / typical.count(context), "share": time.length / steps.length}
        yield Loss("q-mac-waits", len(rows), {"names": names, **waits})


def _own_work(context: Context) -> Iterator[Loss]:
    """Work of the profiler itself that the recording names, such as the request of a buffer."""
    names, overheads = context.trace.names, context.trace.overheads
    rows = np.flatnonzero(~names.where(host_activity.is_loading_overhead)[overheads.name])
    steps = typical.times(context)
    works = times_of(overheads, rows)
    time = (works & steps).length
    if time >= _OWN_WORK * steps.length > 0:
        own = rows[steps.contains(overheads.start_ns[rows])]
        named = ", ".join(sorted({names[code] for code in overheads.name[own].tolist()}))
        yield Loss(
            "q-profiler-work",
            len(own),
            {"names": named, "time": time / typical.count(context), "share": time / steps.length},
        )


def _crowds(context: Context) -> Iterator[Loss]:
    """Things so numerous that a report describes only the first of them."""
    loaders = len(distinct(context.host.name[context.host.kind == NodeKind.DATALOADER]))
    if loaders > host_waits.LOADERS:
        yield Loss("q-many-loaders", loaders, {"described": host_waits.LOADERS})
    if deep := host_waits.too_deep(context):
        yield Loss("q-deep-waits", deep, {"told_apart": host_waits.OPERATORS})


def _links(context: Context) -> Iterator[Loss]:
    trace, launch = context.trace, context.links.launch
    if context.host.tree.clipped:
        yield Loss("q-overlapping-slices", context.host.tree.clipped)
    kernels = trace.device.category == Category.KERNEL
    total = int(trace.device.dur_ns[kernels].sum())
    homeless = kernels & (context.links.device_node() == NO_PARENT)
    time = int(trace.device.dur_ns[homeless].sum())
    has_operators = np.isin(trace.host.category, (Category.OPERATOR, Category.PYTHON)).any()
    if total and not has_operators:
        yield Loss("q-only-device-recorded", int(kernels.sum()))
    elif total and time / total > _UNATTRIBUTED:
        yield Loss("q-unattributed", int(homeless.sum()), {"time": time, "share": time / total})
    linked = np.flatnonzero(kernels & (launch != NO_PARENT))
    early = trace.device.start_ns[linked] < trace.launches.start_ns[launch[linked]]
    if early.any():
        yield Loss("q-clock-anomaly", int(early.sum()))
    graph = trace.names.where(marks.is_graph_launch)
    unlabelled = context.cached(graph_labels).of_event[linked] == 0
    in_graphs = int((graph[trace.launches.name[launch[linked]]] & unlabelled).sum())
    if in_graphs and in_graphs >= _OPAQUE * kernels.sum():
        yield Loss("q-graph-opaque", in_graphs, {"share": in_graphs / int(kernels.sum())})
