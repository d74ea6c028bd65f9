"""The cost of each mark: host time, device time of everything launched in it, and idle time of the devices.

Exclusive times of all marks add up, because each moment of a thread and each launch belongs to the innermost mark.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.phases.windows import windows
from traceanalyzer.structure import gaps
from traceanalyzer.structure.autograd import critical_threads, engines
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import Forest, forest
from traceanalyzer.structure.module_calls import device_time
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT


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
    device_ns: int
    """Device time of everything whose launch is known."""
    unmarked_device_ns: int
    """The part that was launched in no mark."""


def costs(context: Context) -> MarkCosts:
    """The costs of every mark of the forest."""
    found = context.once(forest)
    device, mark = context.once(device_time), context.once(launch_marks)
    inside = mark != NO_PARENT
    in_steps = np.where(context.once(windows).contain(context.trace.launches.start_ns), device, 0)
    own = [sum_by(mark[inside], values[inside], len(found)) for values in (device, in_steps)]
    idle, has_idle = _idle(context, found)
    total = int(device[context.in_scope(context.trace.launches.start_ns)].sum())
    return MarkCosts(
        host_self=_host_self(found),
        device_self=own[0],
        device_self_in_steps=own[1],
        idle=idle,
        idle_self=idle - found.child_sums(idle),
        has_idle=has_idle,
        device_ns=total,
        unmarked_device_ns=total - int(own[0].sum()),
    )


def launch_marks(context: Context) -> I64:
    """For each launch the innermost mark around it, -1 for none.

    Launches of autograd's threads outside of their own marks belong to the mark that waits for these threads.
    """
    found, launches = context.once(forest), context.trace.launches
    mark = np.full(len(launches), NO_PARENT, np.int64)
    if not len(found):
        return mark
    rows = np.flatnonzero((context.once(device_time) > 0) & context.in_scope(launches.start_ns))
    thread, start = launches.thread[rows], launches.start_ns[rows]
    mark[rows] = found.innermost(thread, start)
    for own, waiting in context.once(engines).items():
        homeless = rows[(thread == own) & (mark[rows] == NO_PARENT)]
        other = np.full(len(homeless), waiting, thread.dtype)
        mark[homeless] = found.innermost(other, launches.start_ns[homeless])
    return mark


def _host_self(found: Forest) -> I64:
    """Duration of each mark without the marks inside it on its thread."""
    duration = found.end_ns - found.start_ns
    nested = (found.parent != NO_PARENT) & (entries(found.is_adopted, found.parent, False) == found.is_adopted)
    inside = np.zeros(len(found), np.int64)
    np.add.at(inside, found.parent[nested], duration[nested])
    return duration - inside


def device_idle(context: Context) -> Intervals:
    """When, within a step, no device works."""
    return context.once(windows).times - gaps.any_busy(context)


def _idle(context: Context, found: Forest) -> tuple[I64, Bool]:
    """For each mark the idle time of the devices that falls into it, and whether it can be blamed on it.

    Of two threads that work at the same time only one is blamed: autograd's until the mark that waits for it ends, or
    another begins.
    """
    threads = context.once(critical_threads)
    blamed: Bool = np.isin(found.thread, threads)
    if not blamed.any():
        return np.zeros(len(found), np.int64), blamed
    idle = context.once(device_idle)
    end = found.end_ns.copy()
    on_engine = np.flatnonzero(np.isin(found.thread, threads[1:]))
    if len(on_engine):
        end[on_engine] = np.minimum(end[on_engine], _limits(found, on_engine, threads[0]))
    time = idle.within(found.start_ns, np.maximum(found.start_ns, end))
    return np.where(blamed, time, 0), blamed


def _limits(found: Forest, on_engine: I64, waiting: int) -> I64:
    """Until when each of autograd's marks can be blamed."""
    parent = found.parent[on_engine]
    is_root = entries(found.thread, parent, -1) != found.thread[on_engine]
    roots = on_engine[is_root]
    others = np.append(np.sort(found.start_ns[found.thread == waiting]), np.iinfo(np.int64).max)
    following = others[np.searchsorted(others, found.start_ns[roots], side="right")]
    limit = np.minimum(following, entries(found.end_ns, found.parent[roots], np.iinfo(np.int64).max))
    found_limits: I64 = limit[np.cumsum(is_root) - 1]
    return found_limits
