"""What decides how long the typical step takes, and what could take longer without harm?

The critical path is the chain of causes that ends with the step: at each time exactly one thing for which its end
waits. Its parts sum to the step. What is not on it has slack: it may take longer before the step does.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.communicating import communication_kernels
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.host_tree import NodeKind
from traceanalyzer.analyzers.sums import members, sum_by
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.simulation import back_pointers, model, slack, step_times
from traceanalyzer.simulation.back_pointers import Pieces, Why
from traceanalyzer.simulation.edits import Edits
from traceanalyzer.simulation.graph import Graph
from traceanalyzer.simulation.longest_path import Times
from traceanalyzer.simulation.model import Model
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, entries
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

RESOURCES = (
    "loader",
    "host",
    "launch",
    "compute",
    "copy",
    "communication",
    "device_gap",
    "wake_up",
    "unrecorded",
)
"""What a part of the path is: waiting for the loader, host time, the way of a launch to the device, kernels, copies and
fills, collectives, pauses between device events, the way back to a host that waits, work that was not recorded."""
(LOADER, HOST, LAUNCH, COMPUTE, COPY, COMMUNICATION, GAP, WAKE_UP, UNRECORDED) = range(len(RESOURCES))
_OF_REASON = {Why.HOST: HOST, Why.WAKE_UP: WAKE_UP, Why.GAP: GAP, Why.LAUNCH: LAUNCH, Why.EVENT_WAIT: GAP}
_CHAINS = {"loader": "loader", "host": "host", "launch": "host", "wake_up": "host", "communication": "communication"}
"""The resource that a part of the path stands for where only four are told apart; all others are the device's."""
_OPERATORS = 30
_STRETCHES = 100


class CriticalPart(msgspec.Struct, frozen=True):
    """Time of the path in one resource."""

    resource: str
    """`loader`, `host`, `launch`, `compute`, `copy`, `communication`, `device_gap`, `wake_up` or `unrecorded`."""
    ns_per_step: float
    """Time in ns per step."""
    share: float
    """Share of the step (0 to 1)."""


class CriticalKernelClass(msgspec.Struct, frozen=True):
    """Time of the path in kernels of one class."""

    kernel_class: str | None
    """Class of the kernels, one of those of the analysis `kernel_classes`; null where the name does not tell."""
    ns_per_step: float
    """Time in ns per step."""


class CriticalOperator(msgspec.Struct, frozen=True):
    """Time of the path in one operator, the innermost around the host time or the launch."""

    operator: str | None
    """Name of the operator; null for what is in none."""
    ns_per_step: float
    """Time in ns per step: what one percent of it saves or costs is one percent of this."""
    host_ns_per_step: float
    """Part of it in ns that is host time."""
    device_ns_per_step: float
    """Part of it in ns in which kernels, copies and fills run."""
    device_total_ns_per_step: float
    """Time in ns per step of all that the operator runs on a device, on the path or not."""


class CriticalStretch(msgspec.Struct, frozen=True):
    """A stretch of the path in one resource."""

    resource: str
    """As of the parts; short stretches between longer ones count with the one before them."""
    start_ns: int
    """Start in ns since the start of the step."""
    duration_ns: int
    """Duration in ns."""


class CriticalPath(msgspec.Struct, frozen=True):
    """The critical path of the typical step."""

    steps: int
    """Number of steps that the means are over."""
    step_ns: float
    """Mean duration of these steps in ns."""
    parts: tuple[CriticalPart, ...]
    """Time by resource; all are listed and sum to the step."""
    kernel_classes: tuple[CriticalKernelClass, ...]
    """Time of kernels by class, the greatest first."""
    operators: tuple[CriticalOperator, ...]
    """Time by operator, the 30 with most of it."""
    stretches: tuple[CriticalStretch, ...]
    """The path of the step that is most like the mean, in the order of time; they sum to the step."""
    device_slack_ns_per_step: float | None
    """Time in ns per step of device events each of which could take twice as long without making the step longer; null
    without device events."""


def analyze(context: Context) -> CriticalPath:
    """The critical path of the typical step as recorded."""
    found = model.require(context)
    pieces = back_pointers.critical(found.with_residuals, found.recorded, found.bounds)
    starts, ends = step_times.starts(found.bounds, found.recorded), step_times.ends(found.bounds, found.recorded)
    steps, resource = len(starts), _resources(found, found.with_residuals, pieces)
    within = Intervals.union(starts, ends)
    times = within.within(pieces.start_ns, pieces.end_ns)
    step = float((ends - starts).sum()) / steps
    sums = sum_by(resource, times, len(RESOURCES)) / steps
    sums[UNRECORDED] += step - sums.sum()
    return CriticalPath(
        steps=steps,
        step_ns=step,
        parts=tuple(
            CriticalPart(name, ns, ns / step if step else 0.0)
            for name, ns in zip(RESOURCES, sums.tolist(), strict=True)
        ),
        kernel_classes=_classes(found, pieces, times, resource),
        operators=_operators(found, pieces, within),
        stretches=_stretches(pieces, resource, starts, ends),
        device_slack_ns_per_step=_with_slack(found) / steps if len(found.graph.device) else None,
    )


def bottleneck(found: Model, edits: Edits) -> str:
    """What the step takes longest for with some edits: `loader`, `host`, `gpu` or `communication`."""
    graph, times, bounds = found.changed(edits)
    pieces = back_pointers.critical(graph, times, bounds)
    within = Intervals.union(step_times.starts(bounds, times), step_times.ends(bounds, times))
    length = within.within(pieces.start_ns, pieces.end_ns)
    sums = sum_by(_resources(found, graph, pieces), length, len(RESOURCES)).tolist()
    chains = dict.fromkeys(("gpu", "host", "loader", "communication"), 0)
    for name, ns in zip(RESOURCES, sums, strict=True):
        chains[_CHAINS.get(name, "gpu")] += ns
    return max(chains, key=lambda name: chains[name])


def _resources(found: Model, graph: Graph, pieces: Pieces) -> I64:
    """The resource of each piece of the path of a graph."""
    trace = found.context.trace
    of_reason = np.array([_OF_REASON.get(why, COMPUTE) for why in Why])
    resource = of_reason[pieces.why]
    host = resource == HOST
    resource[host] = np.where(graph.host.in_loader[pieces.point[host]], LOADER, HOST)
    runs = np.flatnonzero(pieces.why == Why.RUNS)
    rows = graph.device.row[pieces.event[runs]]
    kind = np.where(trace.device.category[rows] == Category.KERNEL, COMPUTE, COPY)
    resource[runs] = np.where(communication_kernels(trace)[rows], COMMUNICATION, kind)
    return resource


def _classes(found: Model, pieces: Pieces, times: I64, resource: I64) -> tuple[CriticalKernelClass, ...]:
    trace = found.context.trace
    runs = np.flatnonzero(resource == COMPUTE)
    names, group = np.unique(trace.device.name[found.graph.device.row[pieces.event[runs]]], return_inverse=True)
    sums: dict[str | None, int] = {}
    for code, ns in zip(names.tolist(), sum_by(group, times[runs], len(names)).tolist(), strict=True):
        known = kernel_class(trace.names[code])
        key = known.value if known else None
        sums[key] = sums.get(key, 0) + ns
    steps = len(found.bounds.part)
    rows = sorted(((key, ns) for key, ns in sums.items() if ns), key=lambda row: (-row[1], row[0] or ""))
    return tuple(CriticalKernelClass(key, ns / steps) for key, ns in rows)


def _operators(found: Model, pieces: Pieces, steps_time: Intervals) -> tuple[CriticalOperator, ...]:
    """Time by the operator that is innermost at each time of the host, or around the launch of device events."""
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
    codes = np.unique(np.concatenate((name, other, waking)))
    host_ns = _sums_of(codes, name, host)
    device_ns = _sums_of(codes, other, np.where(pieces.why[others] == Why.RUNS, times, 0))
    every = host_ns + _sums_of(codes, other, times) + _sums_of(codes, waking, back)
    total = _sums_of(codes, of_event, np.where(_judged(found), found.graph.device.dur_ns, 0))
    rows = [
        CriticalOperator(context.trace.names[code] if code != NO_PARENT else None, *(ns / steps for ns in values))
        for code, *values in zip(codes.tolist(), *(c.tolist() for c in (every, host_ns, device_ns, total)), strict=True)
    ]
    rows.sort(key=lambda row: (-row.ns_per_step, row.operator or ""))
    return tuple(row for row in rows[:_OPERATORS] if row.ns_per_step > 0)


def _on_host(context: Context, thread: I64, start: I64, end: I64, within: Intervals) -> tuple[I64, I64]:
    """Names of operators (-1 for none), and how long each is the innermost one in some disjoint intervals."""
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
    """The names of host nodes or of the operators around them, without modules and steps; -1 where there is none."""
    found: I64 = entries(context.host.name.astype(np.int64), entries(_named(context), node, NO_PARENT), NO_PARENT)
    return found


def _named(context: Context) -> I64:
    """For each host node itself or the nearest one around it that is no module and no step, -1 for none."""
    host = context.host
    return host.tree.nearest((host.kind != NodeKind.MODULE) & (host.kind != NodeKind.STEP))


def _of_events(found: Model) -> I64:
    """The name of the operator that launched each device event of the model, or -1."""
    return _names(found.context, found.context.links.device_node()[found.graph.device.row])


def _judged(found: Model) -> Array:
    """Which device events belong to judged steps."""
    own = np.zeros(len(found.graph.device), np.bool_)
    own[found.bounds.events] = True
    return own | found.graph.device.is_judged if not own.any() else own


def _sums_of(codes: I64, name: I64, values: I64) -> I64:
    """The sum of some values for each of the codes, ascending; those of other codes do not count."""
    place = np.searchsorted(codes, name)
    known = np.append(codes, NO_PARENT - 1)[place] == name
    return sum_by(place[known], values[known], len(codes))


def _stretches(pieces: Pieces, resource: I64, starts: I64, ends: I64) -> tuple[CriticalStretch, ...]:
    """The path of one step; what is too short to show is added to the stretch before it."""
    step = int(np.argmin(np.abs((ends - starts) - (ends - starts).mean())))
    start, end = int(starts[step]), int(ends[step])
    rows = np.flatnonzero((pieces.end_ns > start) & (pieces.start_ns < end))
    begins = np.maximum(pieces.start_ns[rows], start)
    label = resource[rows]
    if not len(rows) or begins[0] > start:
        begins, label = np.append(start, begins), np.append(UNRECORDED, label)
    least = 0
    while True:
        changes = np.append(True, label[1:] != label[:-1])
        begins, label = begins[changes], label[changes]
        if len(begins) <= _STRETCHES:
            break
        length = np.append(begins[1:], end) - begins
        least = max(2 * least, int(np.partition(length, len(length) - _STRETCHES)[len(length) - _STRETCHES]), 1)
        kept = length >= least
        kept[0] = True
        begins, label = begins[kept], label[kept]
    length = np.append(begins[1:], end) - begins
    columns = zip(label.tolist(), (begins - start).tolist(), length.tolist(), strict=True)
    return tuple(CriticalStretch(RESOURCES[kind], since, ns) for kind, since, ns in columns)


def _with_slack(found: Model) -> int:
    """Time in ns of the device events of the steps that could take twice as long."""
    times: Times = found.recorded
    left = slack.of_events(found.with_residuals, times, found.bounds, found.part_of_event)
    device = found.graph.device
    return int(device.dur_ns[_judged(found) & (left >= device.dur_ns)].sum())
