"""The typical steps, the one population of every figure per step: what lies in them, and the mean over them.

An event counts with the part of it that lies in a typical step. Which steps are typical: docs/metrics/recording.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from traceanalyzer.structure import gaps
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.recording.program_steps import WHOLE, program_steps
from traceanalyzer.structure.resources import busiest
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.intervals import Intervals

T = TypeVar("T")

_TURNS = 0.01
"""Streams take turns if they run at the same time for at most this share of the time of one (own choice)."""


def mean(total: float, steps: int) -> float:
    """What a step has of a sum over so many steps, at least one."""
    return total / steps


def count(context: Context) -> int:
    """Number of typical steps."""
    return len(program_steps(context).typical)


@cached
def part(context: Context) -> Context:
    """The same trace, of which only what starts in a typical step is in scope; a whole recording is one step."""
    steps = program_steps(context).typical
    return context.only(steps) if len(steps) and steps.found_by != WHOLE else context


def beside(context: Context, rows: Callable[[Context], tuple[T, ...]]) -> tuple[tuple[T, ...], tuple[T, ...] | None]:
    """The rows of a table for all that is in scope, and for the typical steps; None where these are the same."""
    steady = part(context)
    found = context.cached(rows)
    if steady is context or steady.cached(rows) == found:
        return found, None
    return found, steady.cached(rows)


def rows_of(table: Any) -> tuple[Any, ...]:
    """The rows of a table that `beside` made for the typical steps."""
    rows: tuple[Any, ...] = table.rows if table.in_steps is None else table.in_steps
    return rows


@cached
def times(context: Context) -> Intervals:
    """When a typical step runs."""
    steps = program_steps(context).typical
    return Intervals.union(steps.start_ns, steps.end_ns)


@cached
def device(context: Context) -> int | None:
    """The device that works longest in the typical steps; None without any."""
    return busiest(context, times(context))[0]


@cached
def room_ns(context: Context) -> float | None:
    """Time per step in ns in which the busiest stream of the busiest device does nothing; None without a device.

    No change of waits, launches or host work makes a step shorter than what is left, because the work of a stream runs
    one after another, however early it is launched. Work of several streams might come to run at the same time, but
    streams that take turns wait for each other, such as that of a graph and that of its caller: they count as one.
    """
    within, events, number = times(context), context.trace.device, device(context)
    if number is None or not count(context):
        return None
    rows = np.flatnonzero(events.device == number)
    busy = [gaps.times_of(events, rows[own]) & within for _, own in members(events.stream[rows])]
    lane, *others = sorted(busy, key=lambda own: -own.length)
    for other in others:
        if (lane & other).length <= _TURNS * other.length:
            lane = lane | other
    return (within.length - lane.length) / count(context)


@cached
def beside_another_ns(context: Context) -> float:
    """Time per step in ns in which the busiest device does nothing and another one of the recording works."""
    within, events = times(context), context.trace.device
    number, busy = busiest(context, within)
    if number is None or not count(context):
        return 0.0
    others = gaps.times_of(events, events.device != number)
    return ((within & others) - busy).length / count(context)
