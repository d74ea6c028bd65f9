"""The cost of marks: host time, device time of everything launched in them, and idle time of the devices.

Exclusive times of all marks add up, because each moment of a thread and each launch belongs to the innermost mark.
Costs are summed by name and by place in the tree of names, and divided by the number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.structure import gaps, typical
from traceanalyzer.structure.autograd import critical_threads, engines
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import Forest, Labels, forest, labels
from traceanalyzer.structure.module_calls import device_time
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, least_by, sum_by
from traceanalyzer.structure.sums import group as grouped
from traceanalyzer.trace.distinct import moments, stable_order
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_NO_STEPS = (None, "whole-trace", "device-events", "host-annotations")
"""The value of `steps_from` if nothing marks or repeats a step."""
DEEPEST = 32
"""Levels of the tree that are distinguished; a deeper mark counts where the mark around it does (own choice)."""


class Windows(msgspec.Struct, frozen=True):
    """Steps as the host ran through them."""

    start_ns: I64
    end_ns: I64
    count: int
    """Number of steps that values are divided by; 0 if steps are unknown."""
    found_by: str | None

    @property
    def times(self) -> Intervals:
        """The time in some step."""
        return Intervals.union(self.start_ns, self.end_ns)

    def contain(self, times: I64) -> Bool:
        """Which points in time lie in a step."""
        return self.times.contains(times)

    def cut(self, start_ns: I64, end_ns: I64) -> Bool:
        """Which intervals a step begins or ends within; none if steps are unknown."""
        if not self.count:
            return np.zeros(len(start_ns), np.bool_)
        bounds = moments(self.start_ns, self.end_ns)
        return np.searchsorted(bounds, end_ns, "left") > np.searchsorted(bounds, start_ns, "right")


def windows(context: Context) -> Windows:
    """All steps that the profiler marked, cut off or not; else those of the program; of chosen steps just these."""
    marked = np.flatnonzero(context.kind == NodeKind.STEP)
    if context.scope is not None:
        steps = context.steps
        return Windows(steps.start_ns, steps.end_ns, len(steps), steps.found_by)
    if len(marked):
        host = context.trace.host
        return Windows(host.start_ns[marked], host.end_ns[marked], len(marked), "ProfilerStep")
    program = context.cached(program_steps)
    if program.found_by in _NO_STEPS:
        whole = context.steps
        return Windows(whole.start_ns, whole.end_ns, 0, None)
    return Windows(program.start_ns, program.end_ns, len(program.names), program.found_by)


class TypicalTimes(msgspec.Struct, frozen=True):
    """What lies in the typical steps."""

    count: int
    """Number of typical steps; 0 where none is marked."""
    times: Intervals
    """When one runs."""
    idle: Intervals
    """When, within one, no device works."""
    device: I64
    """Of each launch, the time in them of what it started on devices."""


def in_typical_steps(context: Context) -> TypicalTimes:
    """What lies in typical steps: nothing where no step is marked."""
    steps = program_steps(context).typical
    events = context.trace.device
    launch = context.links.launch
    if not len(steps) or steps.found_by in _NO_STEPS:
        return TypicalTimes(0, Intervals.none(), Intervals.none(), np.zeros(len(context.trace.launches), np.int64))
    times = typical.times(context)
    linked = launch != NO_PARENT
    own = times.within(events.start_ns[linked], events.end_ns[linked])
    device = sum_by(launch[linked], own, len(context.trace.launches))
    return TypicalTimes(len(steps), times, times - gaps.any_busy(context), device)


class MarkCosts(msgspec.Struct, frozen=True):
    """Times of each mark in ns, exclusive ones without the marks inside."""

    host_self: I64
    device_self: I64
    device_self_in_steps: I64
    """The part that was launched in a step."""
    idle: I64
    """Time in a step in which no device works; 0 where `has_idle` is false."""
    idle_self: I64
    has_idle: Bool
    """Whether idle time can be blamed on the mark: it is on the thread that launches, or on autograd's for it."""
    host_in_typical: I64
    """The part of each mark, the marks inside included, that lies in typical steps."""
    host_self_in_typical: I64
    device_self_in_typical: I64
    idle_in_typical: I64
    device_ns: int
    """Device time of everything whose launch is known."""
    unmarked_device_ns: int
    """The part that was launched in no mark."""


def costs(context: Context) -> MarkCosts:
    """The costs of every mark of the forest."""
    marks = context.cached(forest)
    device = context.cached(device_time)
    mark = context.cached(launch_marks)
    inside = mark != NO_PARENT
    in_steps = np.where(context.cached(windows).contain(context.trace.launches.start_ns), device, 0)
    steady = context.cached(in_typical_steps)
    own = [sum_by(mark[inside], values[inside], len(marks)) for values in (device, in_steps, steady.device)]
    idle, steady_idle, has_idle = _idle(context, marks)
    total = int(device[context.in_scope(context.trace.launches.start_ns)].sum())
    return MarkCosts(
        host_self=_host_self(marks, marks.end_ns - marks.start_ns),
        device_self=own[0],
        device_self_in_steps=own[1],
        idle=idle,
        idle_self=idle - marks.child_sums(idle),
        has_idle=has_idle,
        host_in_typical=steady.times.within(marks.start_ns, marks.start_ns + marks.dur_ns),
        host_self_in_typical=_host_self(marks, steady.times.within(marks.start_ns, marks.end_ns)),
        device_self_in_typical=own[2],
        idle_in_typical=steady_idle,
        device_ns=total,
        unmarked_device_ns=total - int(own[0].sum()),
    )


def launch_marks(context: Context) -> I64:
    """For each launch the innermost mark around it, -1 for none.

    Launches of autograd's threads outside of their own marks belong to the mark that waits for these threads.
    """
    marks = context.cached(forest)
    launches = context.trace.launches
    mark = np.full(len(launches), NO_PARENT, np.int64)
    if not len(marks):
        return mark
    rows = np.flatnonzero((context.cached(device_time) > 0) & context.in_scope(launches.start_ns))
    thread = launches.thread[rows]
    start = launches.start_ns[rows]
    mark[rows] = marks.innermost(thread, start)
    for own, waiting in context.cached(engines).items():
        homeless = rows[(thread == own) & (mark[rows] == NO_PARENT)]
        other = np.full(len(homeless), waiting, thread.dtype)
        mark[homeless] = marks.innermost(other, launches.start_ns[homeless])
    return mark


def _host_self(marks: Forest, duration: I64) -> I64:
    """Time of each mark without the marks inside it on its thread."""
    nested = (marks.parent != NO_PARENT) & (take_or(marks.is_adopted, marks.parent, False) == marks.is_adopted)
    return duration - sum_by(marks.parent[nested], duration[nested], len(marks))


def device_idle(context: Context) -> Intervals:
    """When, within a step, no device works."""
    return context.cached(windows).times - gaps.any_busy(context)


def _idle(context: Context, marks: Forest) -> tuple[I64, I64, Bool]:
    """For each mark the idle time of the devices in it: in steps, in typical ones; and whether it can be blamed on it.

    Of two threads that work at the same time only one is blamed: autograd's until the mark that waits for it ends, or
    another begins.
    """
    threads = context.cached(critical_threads)
    blamed: Bool = np.isin(marks.thread, threads)
    if not blamed.any():
        return np.zeros(len(marks), np.int64), np.zeros(len(marks), np.int64), blamed
    end = marks.end_ns.copy()
    on_engine = np.flatnonzero(np.isin(marks.thread, threads[1:]))
    if len(on_engine):
        end[on_engine] = np.minimum(end[on_engine], _limits(marks, on_engine, threads[0]))
    of_steps, of_typical = (
        np.where(blamed, idle.within(marks.start_ns, np.maximum(marks.start_ns, end)), 0)
        for idle in (context.cached(device_idle), context.cached(in_typical_steps).idle)
    )
    return of_steps, of_typical, blamed


def _limits(marks: Forest, on_engine: I64, waiting: int) -> I64:
    """Until when each of autograd's marks can be blamed."""
    parent = marks.parent[on_engine]
    is_root = take_or(marks.thread, parent, -1) != marks.thread[on_engine]
    roots = on_engine[is_root]
    others = np.append(np.sort(marks.start_ns[marks.thread == waiting]), np.iinfo(np.int64).max)
    following = others[np.searchsorted(others, marks.start_ns[roots], side="right")]
    limit = np.minimum(following, take_or(marks.end_ns, marks.parent[roots], np.iinfo(np.int64).max))
    found_limits: I64 = limit[np.cumsum(is_root) - 1]
    return found_limits


class Sums(msgspec.Struct, frozen=True):
    """Times in ns of groups of marks, each column with one value per group."""

    calls: I64
    recursive_calls: I64
    """Calls inside another of the group on the same thread."""
    depth: I64
    """Least depth of one of the marks."""
    threads: I64
    host: I64
    host_self: I64
    device: I64
    device_in_steps: I64
    device_self: I64
    device_self_in_steps: I64
    idle: I64
    idle_self: I64
    has_idle: Bool
    host_in_typical: I64
    host_self_in_typical: I64
    device_in_typical: I64
    device_self_in_typical: I64
    idle_in_typical: I64


def names_of(context: Context) -> Labels:
    """The names of the rows."""
    return labels(context.cached(forest), context.trace.names)


def sums(context: Context, group: I64, count: int, level: I64 | None = None) -> Sums:
    """Sum the costs of marks by group; inclusive times over the marks that lie in no other of their group.

    Args:
        context: The trace.
        group: The group of each mark.
        count: Number of groups.
        level: Depth of each group; the least of its marks if None.
    """
    marks = context.cached(forest)
    cost = context.cached(costs)
    end = marks.start_ns + marks.dur_ns
    repeated = _inside(grouped(group, marks.thread)[1], marks.start_ns, end)
    outer = np.flatnonzero(~repeated)
    outermost = np.flatnonzero(~_inside(group, np.arange(len(marks)), marks.after))
    thread = group[grouped(group, marks.thread)[0]]

    def of(rows: I64, values: I64) -> I64:
        return sum_by(group[rows], values[rows], count)

    every = np.arange(len(marks))
    return Sums(
        calls=count_by(group, count),
        recursive_calls=sum_by(group, repeated.astype(np.int64), count),
        depth=least_by(group, marks.depth, count) if level is None else level,
        threads=count_by(thread, count),
        host=of(outer, marks.dur_ns),
        host_self=of(every, cost.host_self),
        device=of(outermost, marks.sums(cost.device_self)),
        device_in_steps=of(outermost, marks.sums(cost.device_self_in_steps)),
        device_self=of(every, cost.device_self),
        device_self_in_steps=of(every, cost.device_self_in_steps),
        idle=of(outermost, cost.idle),
        idle_self=of(every, cost.idle_self),
        has_idle=count_by(group[cost.has_idle], count) > 0,
        host_in_typical=of(outer, cost.host_in_typical),
        host_self_in_typical=of(every, cost.host_self_in_typical),
        device_in_typical=of(outermost, marks.sums(cost.device_self_in_typical)),
        device_self_in_typical=of(every, cost.device_self_in_typical),
        idle_in_typical=of(outermost, cost.idle_in_typical),
    )


def _inside(group: I64, start: I64, end: I64) -> Bool:
    """Which intervals lie within another of their group; of equal ones all but the first."""
    order = np.lexsort((-end, start, group))
    moments, rank = np.unique(end[order], return_inverse=True)
    base = group[order] * (len(moments) + 1)
    reach = np.maximum.accumulate(base + rank + 1)
    before = np.append(0, reach[:-1])
    inside = np.zeros(len(group), np.bool_)
    inside[order] = before >= base + rank + 1
    return inside


class MarkPaths(msgspec.Struct, frozen=True):
    """Places in the tree of names, parents before their children, siblings in the order of their first mark."""

    of_mark: I64
    """The place of each mark."""
    label: I64
    parent: I64
    depth: I64

    def __len__(self) -> int:
        return len(self.label)


def paths(marks: Forest, label: I64) -> MarkPaths:
    """Find the places: marks with the same names around them are one, and so is a mark directly inside its like."""
    place = np.full(len(marks) + 1, NO_PARENT, np.int64)
    around_label = take_or(label, marks.parent, NO_PARENT)
    places: list[Array] = [np.empty((0, 3), np.int64)]
    count = 0
    for rows in _levels(marks.depth):
        around = place[marks.parent[rows]]
        like = around_label[rows] == label[rows]
        place[rows[like]] = around[like]
        rows, around = rows[~like], around[~like]  # noqa: PLW2901 - those that need a place of their own
        known, which = np.unique(np.column_stack((around, label[rows])), axis=0, return_inverse=True)
        place[rows] = count + which.ravel()
        places.append(np.column_stack((known, least_by(which.ravel(), marks.start_ns[rows], len(known)))))
        count += len(known)
    last = np.maximum.accumulate(np.where(marks.depth == DEEPEST - 1, np.arange(len(marks)), NO_PARENT))
    deep = np.flatnonzero(marks.depth >= DEEPEST)
    place[deep] = place[last[deep]]
    return _in_order(place[:-1], *np.concatenate(places).T)


def _levels(depth: I64) -> list[I64]:
    """The marks of each depth that is distinguished."""
    order = stable_order(depth)
    order = order[depth[order] < DEEPEST]
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(order) else []


def _in_order(place: I64, parent: I64, label: I64, first: I64) -> MarkPaths:
    """Number the places depth first; a level at a time came before."""
    children: dict[int, list[int]] = {}
    for number in np.lexsort((label, first)).tolist():
        children.setdefault(int(parent[number]), []).append(number)
    order: list[int] = []
    depths: list[int] = []
    waiting = [(number, 0) for number in reversed(children.get(NO_PARENT, []))]
    while waiting:
        number, depth = waiting.pop()
        order.append(number)
        depths.append(depth)
        waiting.extend((child, depth + 1) for child in reversed(children.get(number, [])))
    position = np.empty(len(order) + 1, np.int64)
    position[order], position[NO_PARENT] = np.arange(len(order)), NO_PARENT
    return MarkPaths(position[place], label[order], position[parent[order]], np.array(depths, np.int64))


TimesByName = dict[str, Any]
"""The fields of `PhaseTimes` by name."""


class PhaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of some marks. Inclusive times include the marks inside, self times do not."""

    calls: int
    """Number of marks."""
    recursive_calls: int
    """Number of marks inside another of the same name on the same thread; inclusive times count them once."""
    depth: int
    """Least number of marks around one of them."""
    threads: int
    """Number of threads that have such marks."""
    host_ns: int
    """Duration in ns of the outermost of the marks, on all threads."""
    host_ns_per_step: float | None
    """The same divided by the number of steps; null if steps are unknown."""
    host_self_ns: int
    """Host time in ns without the marks inside."""
    host_self_ns_per_step: float | None
    """The same divided by the number of steps; null if steps are unknown."""
    device_ns: int | None
    """Device time in ns of the work launched inside, each in full, whenever it ran; null if no launch is known."""
    device_ns_per_step: float | None
    """The part that was launched within steps, divided by their number; null if steps are unknown."""
    device_self_ns: int | None
    """Device time in ns of the work launched inside, but in no mark inside; null if no launch is known."""
    device_self_ns_per_step: float | None
    """The part that was launched within steps, divided by their number; null if steps are unknown."""
    idle_ns: int | None
    """Time in ns, within steps, in which no device works while the program is in the mark; null where the mark is not
    on the thread that launches, nor on autograd's for it."""
    idle_ns_per_step: float | None
    """The same divided by the number of steps; null if it is unknown, or there are no steps."""
    idle_self_ns: int | None
    """The part of the idle time in ns that falls into no mark inside; null where it is unknown."""
    host_ns_per_typical_step: float | None = None
    """The part of the host time in ns that lies in typical steps, divided by their number; null without marked steps,
    and in reports of old versions."""
    host_self_ns_per_typical_step: float | None = None
    """The same of the host time without the marks inside."""
    device_ns_per_typical_step: float | None = None
    """Of the work launched inside, what runs in typical steps, in ns, divided by their number; null as before, and if
    no launch is known."""
    device_self_ns_per_typical_step: float | None = None
    """The same of the work launched in no mark inside."""
    idle_ns_per_typical_step: float | None = None
    """Time in ns, within typical steps, in which no device works while the program is in the mark, divided by their
    number; null as before, and where it is unknown."""


def figures(context: Context, sums: Sums) -> list[TimesByName]:
    """The times of each group of marks."""
    columns = [column.tolist() for column in msgspec.structs.astuple(sums)]
    return [times(context, dict(zip(sums.__struct_fields__, row, strict=True))) for row in zip(*columns, strict=True)]


def times(context: Context, row: dict[str, Any]) -> TimesByName:
    """The fields of `PhaseTimes` from the columns of `Sums`, of one group."""
    steps = context.cached(windows).count
    typical_steps = context.cached(in_typical_steps).count
    on_device = context.cached(costs).device_ns > 0
    figures = {name: row[name] for name in ("calls", "recursive_calls", "depth", "threads")}
    for name, in_steps, is_known in (
        ("host", "host", True),
        ("host_self", "host_self", True),
        ("device", "device_in_steps", on_device),
        ("device_self", "device_self_in_steps", on_device),
        ("idle", "idle", row["has_idle"]),
    ):
        figures[f"{name}_ns"] = row[name] if is_known else None
        figures[f"{name}_ns_per_step"] = row[in_steps] / steps if is_known and steps else None
        time = row[f"{name}_in_typical"] if is_known and typical_steps else None
        figures[f"{name}_ns_per_typical_step"] = None if time is None else typical.mean(time, typical_steps)
    return figures | {"idle_self_ns": row["idle_self"] if row["has_idle"] else None}


def most_expensive(
    rows: Sequence[TimesByName], names: Sequence[str], most: int, parents: Sequence[int] | None = None
) -> list[int]:
    """Rows of the most host time first, at most so many; with parents none goes without the one around it."""
    time = [row["host_ns"] for row in rows]
    for row, parent in enumerate(parents or ()):
        if parent != NO_PARENT:
            time[row] = min(time[row], time[parent])
    return sorted(range(len(rows)), key=lambda row: (-time[row], rows[row]["depth"], names[row], row))[:most]
