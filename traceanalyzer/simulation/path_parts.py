"""Describes the critical path: owners of host time, stretches, waits of the host, operators and kernels."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np

from traceanalyzer.knowledge import host_roles
from traceanalyzer.simulation import back_pointers
from traceanalyzer.simulation.back_pointers import Pieces, Why
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import Owner, owner_index
from traceanalyzer.structure.sums import group, members, sum_by
from traceanalyzer.structure.unrecorded_work import holes
from traceanalyzer.trace.distinct import ascending, distinct, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT


class OwnedTime(msgspec.Struct, frozen=True):
    """Host time of a critical path, split where its owner changes; in the order of time. Shapes (pieces,)."""

    start_ns: I64
    end_ns: I64
    owner: I64
    """Number of the owner; -1 if unknown."""


def owned_time(model: Model, pieces: Pieces) -> OwnedTime:
    """The host time of a path, split by owner."""
    index = model.context.cached(owner_index)
    rows = np.flatnonzero(pieces.why == Why.HOST)
    start, end = pieces.start_ns[rows], pieces.end_ns[rows]
    thread = model.graph.host.thread[pieces.point[rows]]
    tree = index.nested.tree
    inside = np.isin(tree.thread, distinct(thread))
    if len(rows):
        inside &= (tree.start_ns < end[-1]) & (tree.end_ns > start[0])
    borders = ascending(np.concatenate((tree.start_ns[inside], tree.end_ns[inside])))
    piece, start, end = cut_at(start, end, borders)
    owner = index.at(thread[piece], start) if len(tree) else np.full(len(start), NO_PARENT)
    return OwnedTime(start, end, owner)


def cut_at(start: I64, end: I64, borders: I64) -> tuple[I64, I64, I64]:
    """Split intervals at some ascending times.

    Returns:
        For each part, the position of its interval, its start and its end.
    """
    first, last = np.searchsorted(borders, start, side="right"), np.searchsorted(borders, end, side="left")
    parts = last - first + 1
    interval = np.repeat(np.arange(len(start)), parts)
    number = np.arange(len(interval)) - np.repeat(np.cumsum(parts) - parts, parts)
    border = np.append(borders, 0)
    after = first[interval] + number
    since = np.where(number == 0, start[interval], border[after - 1])
    until = np.where(number == parts[interval] - 1, end[interval], border[np.minimum(after, len(borders))])
    return interval, since, until


def owner(model: Model, number: int) -> Owner | None:
    """The owner with a number; None for -1."""
    return None if number == NO_PARENT else model.context.cached(owner_index).owners[number]


def main_labels(model: Model, pieces: Pieces, owned: OwnedTime, begins: I64, end: int) -> tuple[str | None, ...]:
    """The kernel, copy, fill or owner of host time that takes at least half of each stretch of a path.

    Args:
        model: The model.
        pieces: Its path.
        owned: The host time of the path.
        begins: Starts of stretches in ns, each of which lasts until the next; ascending.
        end: End of the last one.
    """
    runs = np.flatnonzero(pieces.why == Why.RUNS)
    device = model.context.trace.device.name[model.graph.device.row[pieces.event[runs]]]
    since = np.append(owned.start_ns, pieces.start_ns[runs]).clip(begins[0], end)
    until = np.append(owned.end_ns, pieces.end_ns[runs]).clip(begins[0], end)
    owners = len(model.context.cached(owner_index).owners)
    label = np.append(owned.owner, owners + device.astype(np.int64))  # owner numbers, then name codes
    kept = until > since
    part, since, until = cut_at(since[kept], until[kept], begins)
    stretch = np.searchsorted(begins, since, side="right") - 1
    first, of_label = group(stretch, label[kept][part])
    time = sum_by(of_label, until - since, len(first))
    stretch, label = stretch[first], label[kept][part][first]
    length = np.append(begins[1:], end) - begins
    labels: list[str | None] = [None] * len(begins)
    for row in np.flatnonzero(2 * time >= length[stretch]).tolist():
        code = int(label[row])
        known_owner = owner(model, code) if code < owners else None
        known = known_owner.name if known_owner else None
        name = known if code < owners else model.context.trace.names[code - owners]
        of_stretch = int(stretch[row])
        labels[of_stretch] = min(filter(None, (labels[of_stretch], name)), default=None)  # two may take half each
    return tuple(labels)


# The critical path of one step in the order of time, merged to at most as many stretches as a report shows.

MOST_STRETCHES = 100
"""Most stretches (own choice: a lane of a timeline shows no more)."""


def merge_stretches(pieces: Pieces, label: I64, step: tuple[int, int], unknown: int) -> tuple[I64, I64]:
    """Starts in ns and labels of the stretches of a step; a stretch too short to show is merged into the previous one.

    Args:
        pieces: The path.
        label: Label of each piece.
        step: Start and end of the step in ns.
        unknown: Label of the time before the first piece.
    """
    start, end = step
    rows = np.flatnonzero((pieces.end_ns > start) & (pieces.start_ns < end))
    begins, label = np.maximum(pieces.start_ns[rows], start), label[rows]
    if not len(rows) or begins[0] > start:
        begins, label = np.append(start, begins), np.append(unknown, label)
    least = 0
    while True:
        changes = np.append(True, label[1:] != label[:-1])
        begins, label = begins[changes], label[changes]
        if len(begins) <= MOST_STRETCHES:
            return begins, label
        length = np.append(begins[1:], end) - begins
        least = max(2 * least, int(np.partition(length, len(length) - MOST_STRETCHES)[len(length) - MOST_STRETCHES]), 1)
        kept = length >= least
        kept[0] = True
        begins, label = begins[kept], label[kept]


# Where on the critical path does the host not work: asleep, waiting for collectives, or with its events removed?
#
# The causal model has one kind of host time. What it waits for is told by what else was recorded at that time, so this
# holds for the path as recorded, not for replays of changes.


class Wait(IntEnum):
    """Why the host does not work."""

    NOTHING = 0
    ASLEEP = 1
    """Its thread is in a built-in function that sleeps, or waits for a lock, a process, a file or the network."""
    COLLECTIVE = 2
    """A collective runs on the CPU, and no operator does."""
    REMOVED = 3
    """Events were removed from the recording, so that nobody knows."""


def label_waits(model: Model, pieces: Pieces) -> tuple[Pieces, I64]:
    """Cut the host time of a path where the host begins or ends to work.

    Returns:
        The pieces, and why the host does not work in each, one of `Wait`.
    """
    context = model.context
    is_host = pieces.why == Why.HOST
    threads = distinct(model.graph.host.thread[pieces.point[is_host]])
    asleep = {thread: times for thread in threads.tolist() if (times := _asleep(context, thread))}
    collectives, removed = context.cached(recorded_collectives.exposed_on_host), holes(context)
    waits = [times for times in (*asleep.values(), collectives, removed) if times]
    if not waits:
        return pieces, np.zeros(len(pieces.why), np.int64)
    borders = distinct(np.concatenate([edge for times in waits for edge in (times.start, times.end)]))
    part, start, end = cut_at(pieces.start_ns, pieces.end_ns, borders)
    parts = Pieces(start, end, pieces.why[part], pieces.point[part], pieces.event[part])
    rows = np.flatnonzero(is_host[part])
    wait = np.zeros(len(part), np.int64)
    wait[rows[collectives.contains(start[rows])]] = Wait.COLLECTIVE
    wait[rows[removed.contains(start[rows])]] = Wait.REMOVED
    thread = model.graph.host.thread[parts.point[rows]]
    for asleep_thread, times in asleep.items():
        wait[rows[(thread == asleep_thread) & times.contains(start[rows])]] = Wait.ASLEEP
    return parts, wait


def _asleep(context: Context, thread: int) -> Intervals:
    """When a thread is in a built-in function that waits."""
    frames = context.trace.frames
    rows = np.flatnonzero((frames.thread == thread) & context.trace.names.where(host_roles.is_waiting)[frames.name])
    return Intervals.union(frames.start_ns[rows], frames.end_ns[rows])


# The time of operators and kernels on the critical path, and work that could take longer without delaying the step.

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


def operators(model: Model, pieces: Pieces, steps_time: Intervals, is_free: Bool) -> tuple[CriticalOperator, ...]:
    """Time by innermost operator, around the host time or around the launch of device events."""
    context, steps = model.context, len(model.bounds.part)
    on_host = np.flatnonzero(pieces.why == Why.HOST)
    thread = model.graph.host.thread[pieces.point[on_host]]
    name, host = _on_host(context, thread, pieces.start_ns[on_host], pieces.end_ns[on_host], steps_time)
    of_event = _of_events(model)
    others = np.flatnonzero(pieces.event >= 0)
    other = of_event[pieces.event[others]]
    times = steps_time.within(pieces.start_ns[others], pieces.end_ns[others])
    woken = np.flatnonzero(pieces.why == Why.WAKE_UP)
    calls = model.graph.host.call[pieces.point[woken]]
    waking = _names(context, take_or(context.links.node, calls, NO_PARENT))
    back = steps_time.within(pieces.start_ns[woken], pieces.end_ns[woken])
    codes = distinct(np.concatenate((name, other, waking)))
    host_ns = _sums_of(codes, name, host)
    device_ns = _sums_of(codes, other, np.where(pieces.why[others] == Why.RUNS, times, 0))
    every = host_ns + _sums_of(codes, other, times) + _sums_of(codes, waking, back)
    total = _sums_of(codes, of_event, np.where(judged(model), model.graph.device.dur_ns, 0))
    free = _sums_of(codes, of_event, np.where(is_free, model.graph.device.dur_ns, 0))
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
    self_time = covered - tree.child_sums(covered)
    nodes = np.flatnonzero(self_time)
    return np.append(_names(context, nodes), NO_PARENT), np.append(self_time[nodes], total - self_time.sum())


def _names(context: Context, node: I64) -> I64:
    """Names of host nodes, or of the operators around modules and steps; -1 for none."""
    host = context.host
    named = host.tree.nearest((host.kind != NodeKind.MODULE) & (host.kind != NodeKind.STEP))
    return take_or(host.name.astype(np.int64), take_or(named, node, NO_PARENT), NO_PARENT)


def _of_events(model: Model) -> I64:
    """The name of the operator that launched each device event of the model, or -1."""
    return _names(model.context, model.context.links.device_node()[model.graph.device.row])


def judged(model: Model) -> Bool:
    """Mask of the device events of judged steps."""
    mask = np.zeros(len(model.graph.device), np.bool_)
    mask[model.bounds.events] = True
    return mask | model.graph.device.is_judged if not mask.any() else mask


def _sums_of(codes: I64, name: I64, values: I64) -> I64:
    """Sum of values for each of the ascending codes; values of other codes are ignored."""
    place = np.searchsorted(codes, name)
    known = np.append(codes, NO_PARENT - 1)[place] == name
    return sum_by(place[known], values[known], len(codes))


def with_slack(model: Model) -> Bool:
    """Mask of the device events that could take twice as long, each one alone, without lengthening their steps."""
    left = back_pointers.slack_of_events(model.with_residuals, model.recorded, model.bounds, model.part_of_event)
    return judged(model) & (left >= model.graph.device.dur_ns)


def kernels_with_slack(model: Model, is_free: Bool) -> tuple[KernelWithSlack, ...]:
    """Device events that could take twice as long, by name, largest first."""
    device, steps, trace = model.graph.device, len(model.bounds.part), model.context.trace
    names, group = ranked(trace.device.name[device.row])
    free = sum_by(group, np.where(is_free, device.dur_ns, 0), len(names)) / steps
    every = sum_by(group, np.where(judged(model), device.dur_ns, 0), len(names)) / steps
    columns = zip(names.tolist(), free.tolist(), every.tolist(), strict=True)
    rows = sorted((KernelWithSlack(trace.names[code], *ns) for code, *ns in columns), key=_most_slack)
    return tuple(row for row in rows[:_KERNELS] if row.slack_ns_per_step > 0)


def _most_slack(row: KernelWithSlack) -> tuple[float, str]:
    return -row.slack_ns_per_step, row.name
