"""The time of operators and kernels on the critical path, and work that could take longer without delaying the step."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation import slack
from traceanalyzer.simulation.back_pointers import Pieces, Why
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import members, sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

_OPERATORS = 30
_KERNELS = 10


class CriticalOperator(msgspec.Struct, frozen=True):
    """Time of the path in one operator, the innermost one around the host time or the launch."""

    operator: str | None
    """Name of the operator; null for time outside all operators."""
    ns_per_step: float
    """Time in ns per step; one percent of the operator's time is worth one percent of this."""
    host_ns_per_step: float
    """Part of it that is host time, in ns."""
    device_ns_per_step: float
    """Part of it in which kernels, copies and fills run, in ns."""
    device_total_ns_per_step: float
    """Time in ns per step of all device work of the operator, on the path or not. The ratio of the part on the path to
    this is how much shorter the step gets for each ns by which the operator's device time gets shorter
    (d(step)/d(duration), for small changes)."""
    device_slack_ns_per_step: float | None = None
    """Part of it in kernels, copies and fills each of which, alone, could take twice as long without lengthening the
    step, in ns; null in reports of older versions."""


class KernelWithSlack(msgspec.Struct, frozen=True):
    """Device events of one name that could take longer without delaying the step."""

    name: str
    """Name of the kernel, copy or fill."""
    slack_ns_per_step: float
    """Time in ns per step of those that could take twice as long, each one alone, without lengthening the step."""
    ns_per_step: float
    """Time in ns per step of all events of this name."""


def operators(found: Model, pieces: Pieces, steps_time: Intervals, is_free: Bool) -> tuple[CriticalOperator, ...]:
    """Time by innermost operator, around the host time or around the launch of device events."""
    context, steps = found.context, len(found.bounds.part)
    on_host = np.flatnonzero(pieces.why == Why.HOST)
    thread = found.graph.host.thread[pieces.point[on_host]]
    name, host = _on_host(context, thread, pieces.start_ns[on_host], pieces.end_ns[on_host], steps_time)
    of_event = _of_events(found)
    others = np.flatnonzero(pieces.event >= 0)
    other = of_event[pieces.event[others]]
    times = steps_time.within(pieces.start_ns[others], pieces.end_ns[others])
    woken = np.flatnonzero(pieces.why == Why.WAKE_UP)
    calls = found.graph.host.call[pieces.point[woken]]
    waking = _names(context, entries(context.links.node, calls, NO_PARENT))
    back = steps_time.within(pieces.start_ns[woken], pieces.end_ns[woken])
    codes = distinct(np.concatenate((name, other, waking)))
    host_ns = _sums_of(codes, name, host)
    device_ns = _sums_of(codes, other, np.where(pieces.why[others] == Why.RUNS, times, 0))
    every = host_ns + _sums_of(codes, other, times) + _sums_of(codes, waking, back)
    total = _sums_of(codes, of_event, np.where(judged(found), found.graph.device.dur_ns, 0))
    free = _sums_of(codes, of_event, np.where(is_free, found.graph.device.dur_ns, 0))
    rows = [
        CriticalOperator(context.trace.names[code] if code != NO_PARENT else None, *(ns / steps for ns in values))
        for code, *values in zip(
            codes.tolist(), *(c.tolist() for c in (every, host_ns, device_ns, total, free)), strict=True
        )
    ]
    rows.sort(key=lambda row: (-row.ns_per_step, row.operator or ""))
    return tuple(row for row in rows[:_OPERATORS] if row.ns_per_step > 0)


def _on_host(context: Context, thread: I64, start: I64, end: I64, within: Intervals) -> tuple[I64, I64]:
    """Names of operators (-1 for none), and their time as the innermost operator in some disjoint intervals."""
    tree, covered = context.host.tree, np.zeros(len(context.host.tree), np.int64)
    total = 0
    for number, rows in members(thread):
        inside = within & Intervals.union(start[rows], end[rows])
        part = tree.threads.get(number, slice(0, 0))
        if inside:
            total += inside.length
            begun, over = tree.start_ns[part] < inside.end[-1], tree.end_ns[part] > inside.start[0]
            nodes = part.start + np.flatnonzero(begun & over)
            covered[nodes] = inside.within(tree.start_ns[nodes], tree.end_ns[nodes])
    own = covered - tree.child_sums(covered)
    nodes = np.flatnonzero(own)
    return np.append(_names(context, nodes), NO_PARENT), np.append(own[nodes], total - own.sum())


def _names(context: Context, node: I64) -> I64:
    """Names of host nodes, or of the operators around modules and steps; -1 for none."""
    host = context.host
    named = host.tree.nearest((host.kind != NodeKind.MODULE) & (host.kind != NodeKind.STEP))
    found: I64 = entries(host.name.astype(np.int64), entries(named, node, NO_PARENT), NO_PARENT)
    return found


def _of_events(found: Model) -> I64:
    """The name of the operator that launched each device event of the model, or -1."""
    return _names(found.context, found.context.links.device_node()[found.graph.device.row])


def judged(found: Model) -> Bool:
    """Mask of the device events of judged steps."""
    own = np.zeros(len(found.graph.device), np.bool_)
    own[found.bounds.events] = True
    return own | found.graph.device.is_judged if not own.any() else own


def _sums_of(codes: I64, name: I64, values: I64) -> I64:
    """Sum of values for each of the ascending codes; values of other codes are ignored."""
    place = np.searchsorted(codes, name)
    known = np.append(codes, NO_PARENT - 1)[place] == name
    return sum_by(place[known], values[known], len(codes))


def with_slack(found: Model) -> Bool:
    """Mask of the device events that could take twice as long, each one alone, without lengthening their steps."""
    left = slack.of_events(found.with_residuals, found.recorded, found.bounds, found.part_of_event)
    return judged(found) & (left >= found.graph.device.dur_ns)


def kernels_with_slack(found: Model, is_free: Bool) -> tuple[KernelWithSlack, ...]:
    """Device events that could take twice as long, by name, largest first."""
    device, steps, trace = found.graph.device, len(found.bounds.part), found.context.trace
    names, group = ranked(trace.device.name[device.row])
    free = sum_by(group, np.where(is_free, device.dur_ns, 0), len(names)) / steps
    every = sum_by(group, np.where(judged(found), device.dur_ns, 0), len(names)) / steps
    columns = zip(names.tolist(), free.tolist(), every.tolist(), strict=True)
    rows = sorted((KernelWithSlack(trace.names[code], *ns) for code, *ns in columns), key=_most_slack)
    return tuple(row for row in rows[:_KERNELS] if row.slack_ns_per_step > 0)


def _most_slack(row: KernelWithSlack) -> tuple[float, str]:
    return -row.slack_ns_per_step, row.name
