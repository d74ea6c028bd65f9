"""Describes the critical path: owners of host time, stretches, waits of the host, operators and kernels."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

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
from traceanalyzer.trace.table import I32, I64, Bool, take_or
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
    on_host = pieces.take(pieces.why == Why.HOST)
    thread = model.graph.host.thread[on_host.point]
    # an owner may change where a node of the tree starts or ends
    tree = index.nested.tree
    near = np.isin(tree.thread, distinct(thread))
    if len(on_host):
        near &= (tree.start_ns < on_host.end_ns[-1]) & (tree.end_ns > on_host.start_ns[0])
    borders = ascending(np.concatenate((tree.start_ns[near], tree.end_ns[near])))
    piece, start, end = cut_at(on_host.start_ns, on_host.end_ns, borders)
    owner = index.at(thread[piece], start) if len(tree) else np.full(len(start), NO_PARENT)
    return OwnedTime(start, end, owner)


def cut_at(start: I64, end: I64, borders: I64) -> tuple[I64, I64, I64]:
    """Split intervals at some ascending times.

    Returns:
        For each part, the position of its interval, its start and its end.
    """
    # each interval has one part more than there are borders inside it
    first_border = np.searchsorted(borders, start, side="right")
    after_border = np.searchsorted(borders, end, side="left")
    parts = after_border - first_border + 1
    interval = np.repeat(np.arange(len(start)), parts)
    number = np.arange(len(interval)) - np.repeat(np.cumsum(parts) - parts, parts)
    is_first = number == 0
    is_last = number == parts[interval] - 1

    border = np.append(borders, 0)
    next_border = first_border[interval] + number
    since = np.where(is_first, start[interval], border[next_border - 1])
    until = np.where(is_last, end[interval], border[np.minimum(next_border, len(borders))])
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
    owners = len(model.context.cached(owner_index).owners)
    stretch, label, time = _times_by_stretch(_labelled(model, pieces, owned), begins, end)
    length = np.append(begins[1:], end) - begins
    labels: list[str | None] = [None] * len(begins)
    for row in np.flatnonzero(2 * time >= length[stretch]).tolist():
        code = int(label[row])
        if code < owners:
            known_owner = owner(model, code)
            name = known_owner.name if known_owner else None
        else:
            name = model.context.trace.names[code - owners]
        of_stretch = int(stretch[row])
        labels[of_stretch] = min(filter(None, (labels[of_stretch], name)), default=None)  # two may take half each
    return tuple(labels)


def _labelled(model: Model, pieces: Pieces, owned: OwnedTime) -> OwnedTime:
    """The host time of a path and the time in which device events run.

    The label of device events, in place of an owner, is the number of owners plus the code of their name.
    """
    owners = len(model.context.cached(owner_index).owners)
    running = pieces.take(pieces.why == Why.RUNS)
    name = model.context.trace.device.name[model.graph.device.row[running.event]]
    return OwnedTime(
        start_ns=np.append(owned.start_ns, running.start_ns),
        end_ns=np.append(owned.end_ns, running.end_ns),
        owner=np.append(owned.owner, owners + name.astype(np.int64)),
    )


def _times_by_stretch(labelled: OwnedTime, begins: I64, end: int) -> tuple[I64, I64, I64]:
    """For each stretch and each label in it: the stretch, the label, and its time in ns."""
    since = labelled.start_ns.clip(begins[0], end)
    until = labelled.end_ns.clip(begins[0], end)
    inside = until > since
    piece, since, until = cut_at(since[inside], until[inside], begins)
    label = labelled.owner[inside][piece]
    stretch = np.searchsorted(begins, since, side="right") - 1
    first, pair = group(stretch, label)
    return stretch[first], label[first], sum_by(pair, until - since, len(first))


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
    inside = (pieces.end_ns > start) & (pieces.start_ns < end)
    begins = np.maximum(pieces.start_ns[inside], start)
    label = label[inside]
    if not len(begins) or begins[0] > start:
        begins = np.append(start, begins)
        label = np.append(unknown, label)

    least = 0
    while True:
        changes = np.append(True, label[1:] != label[:-1])
        begins, label = begins[changes], label[changes]
        if len(begins) <= MOST_STRETCHES:
            return begins, label
        # the length of as many stretches as a report shows, or twice that of the last round
        length = np.append(begins[1:], end) - begins
        shorter = len(length) - MOST_STRETCHES
        least = max(2 * least, int(np.partition(length, shorter)[shorter]), 1)
        is_shown = length >= least
        is_shown[0] = True
        begins, label = begins[is_shown], label[is_shown]


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
    host_thread = model.graph.host.thread
    is_host = pieces.why == Why.HOST
    waits = _waits_of(model.context, host_thread[pieces.point[is_host]])
    if not waits:
        return pieces, np.zeros(len(pieces), np.int64)

    borders = distinct(np.concatenate([edge for wait in waits for edge in (wait.times.start, wait.times.end)]))
    piece, start, end = cut_at(pieces.start_ns, pieces.end_ns, borders)
    parts = replace(pieces.take(piece), start_ns=start, end_ns=end)
    on_host = np.flatnonzero(is_host[piece])
    why = np.zeros(len(parts), np.int64)
    for wait in waits:
        waiting = wait.times.contains(start[on_host])
        if wait.thread is not None:
            waiting &= host_thread[parts.point[on_host]] == wait.thread
        why[on_host[waiting]] = wait.why
    return parts, why


class _HostWait(NamedTuple):
    """When the host does not work, for one reason."""

    why: Wait
    times: Intervals
    thread: int | None
    """The thread that does not work; None for all."""


def _waits_of(context: Context, threads: I64) -> list[_HostWait]:
    """When and why some threads do not work; where several reasons hold, the last one counts."""
    collectives = context.cached(recorded_collectives.exposed_on_host)
    waits = [
        _HostWait(Wait.COLLECTIVE, collectives, None),
        _HostWait(Wait.REMOVED, holes(context), None),
        *(_HostWait(Wait.ASLEEP, _asleep(context, thread), thread) for thread in distinct(threads).tolist()),
    ]
    return [wait for wait in waits if wait.times]


def _asleep(context: Context, thread: int) -> Intervals:
    """When a thread is in a built-in function that waits."""
    frames = context.trace.frames
    is_waiting = context.trace.names.where(host_roles.is_waiting)[frames.name]
    rows = np.flatnonzero((frames.thread == thread) & is_waiting)
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


class _OperatorTimes(NamedTuple):
    """Times in ns with the operator that each belongs to. Shapes (times,)."""

    name: I64
    """Code of the operator's name; -1 outside all operators."""
    ns: I64

    def sums(self, codes: I64) -> I64:
        """The sum of each operator, given by ascending codes of names; times of others are left out."""
        number = np.searchsorted(codes, self.name)
        is_known = np.append(codes, NO_PARENT - 1)[number] == self.name
        return sum_by(number[is_known], self.ns[is_known], len(codes))


def operators(model: Model, pieces: Pieces, steps_time: Intervals, is_free: Bool) -> tuple[CriticalOperator, ...]:
    """Time by innermost operator, around the host time or around the launch of device events."""
    trace = model.context.trace
    steps = len(model.bounds.part)
    rows = [
        CriticalOperator(trace.names[code] if code != NO_PARENT else None, *(ns / steps for ns in sums))
        for code, *sums in _operator_sums(model, pieces, steps_time, is_free)
    ]
    rows.sort(key=lambda row: (-row.ns_per_step, row.operator or ""))
    return tuple(row for row in rows[:_OPERATORS] if row.ns_per_step > 0)


def _operator_sums(model: Model, pieces: Pieces, steps_time: Intervals, is_free: Bool) -> list[list[int]]:
    """For each operator of a path: the code of its name, and the sums of a `CriticalOperator` over all steps."""
    on_host = _on_host(model, pieces.take(pieces.why == Why.HOST), steps_time)
    woken = _woken(model, pieces.take(pieces.why == Why.WAKE_UP), steps_time)
    of_event = _of_events(model)
    around, running = _around_events(pieces.take(pieces.event >= 0), of_event, steps_time)

    # all device work of the operators, on the path or not
    duration = model.graph.device.dur_ns
    work = _OperatorTimes(of_event, np.where(judged(model), duration, 0))
    with_slack = _OperatorTimes(of_event, np.where(is_free, duration, 0))
    codes = distinct(np.concatenate((on_host.name, around.name, woken.name)))
    on_path = on_host.sums(codes) + around.sums(codes) + woken.sums(codes)
    parts = [times.sums(codes) for times in (on_host, running, work, with_slack)]
    rows: list[list[int]] = np.column_stack((codes, on_path, *parts)).tolist()
    return rows


def _on_host(model: Model, pieces: Pieces, within: Intervals) -> _OperatorTimes:
    """The host time of a path as time of the innermost operators."""
    tree = model.context.host.tree
    covered = np.zeros(len(tree), np.int64)
    total = 0
    for thread, rows in members(model.graph.host.thread[pieces.point]):
        inside = within & Intervals.union(pieces.start_ns[rows], pieces.end_ns[rows])
        if inside:
            total += inside.length
            part = tree.threads.get(thread, slice(0, 0))
            is_near = (tree.start_ns[part] < inside.end[-1]) & (tree.end_ns[part] > inside.start[0])
            nodes = part.start + np.flatnonzero(is_near)
            covered[nodes] = inside.within(tree.start_ns[nodes], tree.end_ns[nodes])
    self_time = covered - tree.child_sums(covered)
    nodes = np.flatnonzero(self_time)
    name = np.append(_names(model.context, nodes), NO_PARENT)
    return _OperatorTimes(name, np.append(self_time[nodes], total - self_time.sum()))


def _woken(model: Model, pieces: Pieces, within: Intervals) -> _OperatorTimes:
    """The returns to the waiting host on a path, as time of the operators that wait."""
    context = model.context
    call = model.graph.host.call[pieces.point]
    waiting = take_or(context.links.node, call, NO_PARENT)
    return _OperatorTimes(_names(context, waiting), within.within(pieces.start_ns, pieces.end_ns))


def _around_events(pieces: Pieces, of_event: I64, within: Intervals) -> tuple[_OperatorTimes, _OperatorTimes]:
    """Pieces in which a device event runs or before it starts, as time of operators; and only those in which one runs.

    Args:
        pieces: The pieces.
        of_event: For each device event the name of its operator.
        within: Time that counts.
    """
    name = of_event[pieces.event]
    around_ns = within.within(pieces.start_ns, pieces.end_ns)
    running_ns = np.where(pieces.why == Why.RUNS, around_ns, 0)
    return _OperatorTimes(name, around_ns), _OperatorTimes(name, running_ns)


def _names(context: Context, node: I64) -> I64:
    """Names of host nodes, or of the operators around modules and steps; -1 for none."""
    named = take_or(context.cached(_named), node, NO_PARENT)
    return take_or(context.host.name, named, NO_PARENT).astype(np.int64)


def _named(context: Context) -> I32:
    """For each host node, itself or the nearest one around it that is neither a module nor a step; -1 for none."""
    host = context.host
    return host.tree.nearest((host.kind != NodeKind.MODULE) & (host.kind != NodeKind.STEP))


def _of_events(model: Model) -> I64:
    """The name of the operator that launched each device event of the model, or -1."""
    return _names(model.context, model.context.links.device_node()[model.graph.device.row])


def judged(model: Model) -> Bool:
    """Mask of the device events of judged steps."""
    device = model.graph.device
    is_launched = np.zeros(len(device), np.bool_)
    is_launched[model.bounds.events] = True
    return is_launched if is_launched.any() else device.is_judged.copy()


def with_slack(model: Model) -> Bool:
    """Mask of the device events that could take twice as long, each one alone, without lengthening their steps."""
    slack = back_pointers.slack_of_events(model.with_residuals, model.recorded, model.bounds, model.part_of_event)
    return judged(model) & (slack >= model.graph.device.dur_ns)


def kernels_with_slack(model: Model, is_free: Bool) -> tuple[KernelWithSlack, ...]:
    """Device events that could take twice as long, by name, largest first."""
    trace = model.context.trace
    device = model.graph.device
    steps = len(model.bounds.part)
    names, name_of_event = ranked(trace.device.name[device.row])
    slack = sum_by(name_of_event, np.where(is_free, device.dur_ns, 0), len(names)) / steps
    every = sum_by(name_of_event, np.where(judged(model), device.dur_ns, 0), len(names)) / steps
    columns = zip(names.tolist(), slack.tolist(), every.tolist(), strict=True)
    rows = [KernelWithSlack(trace.names[code], *ns) for code, *ns in columns]
    rows.sort(key=_most_slack)
    return tuple(row for row in rows[:_KERNELS] if row.slack_ns_per_step > 0)


def _most_slack(row: KernelWithSlack) -> tuple[float, str]:
    return -row.slack_ns_per_step, row.name
