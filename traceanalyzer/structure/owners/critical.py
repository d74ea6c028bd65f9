"""The critical thread: the one that launches most, or autograd's thread while that one waits for a backward pass.

At each moment of the steps that count, exactly one thread is critical. The program's own thread calls a backward pass
and waits; meanwhile the device waits for autograd, which works on another thread.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import gap_causes, gaps, host_activity
from traceanalyzer.structure.autograd import critical_threads, engines
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.resources import busiest
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool
from traceanalyzer.trace.tree import NO_PARENT

_HELPERS = 16
"""Number of further launching threads whose owners are reported (own choice: programs launch from a few threads)."""


class Critical(msgspec.Struct, frozen=True):
    """Which thread is critical at which time."""

    main: int
    """The thread of the program; -1 if there is none."""
    engine: int | None
    """Autograd's thread that the program's thread waits for; None without one."""
    others: tuple[int, ...]
    """Further threads that launch device work or load data."""
    kept: Intervals
    """The time of the steps that count."""
    steps: int
    """Number of these steps."""
    handed: Intervals
    """When autograd's thread is the critical one, inside and outside of the steps that count."""
    episodes: Intervals
    """When autograd's thread works, its pauses between two functions included."""

    @property
    def window(self) -> tuple[int, int]:
        """From the start of the first step that counts to the end of the last; (0, 0) without any."""
        return (int(self.kept.start[0]), int(self.kept.end[-1])) if self.kept else (0, 0)

    def near(self, start: I64, end: I64) -> Bool:
        """Which times may overlap the time that counts, those between its steps included; empty ones only in steps."""
        low, high = self.window
        found: Bool = (start < high) & (end > low)
        if len(self.kept) > self.steps:  # these are no steps, but some times of the recording
            found &= self.kept.meets(start, end)
        return found

    @property
    def threads(self) -> tuple[int, ...]:
        """All threads whose owners are reported, the program's first."""
        return (self.main, *(() if self.engine is None else (self.engine,)), *self.others)

    def at(self, times: I64) -> I64:
        """The critical thread at each point in time."""
        found = np.full(len(times), self.main, np.int64)
        if self.engine is not None:
            found[self.handed.contains(times)] = self.engine
        return found

    def pieces(self, moments: I64) -> tuple[I64, I64]:
        """Starts and ends of the parts into which some moments cut the steps; one thread is critical in each."""
        (low, high), others = self.window, np.concatenate((moments, self.handed.start, self.handed.end))
        others = others[(others > low) & (others < high)]
        bounds = ascending(np.concatenate((others, self.kept.start, self.kept.end)))
        opens = np.zeros(len(bounds), np.int8)
        opens[np.searchsorted(bounds, self.kept.start)] = 1
        opens[np.searchsorted(bounds, self.kept.end)] = -1
        inside = (np.cumsum(opens, dtype=np.int8)[:-1] > 0) & (bounds[1:] > bounds[:-1])
        return bounds[:-1][inside], bounds[1:][inside]


def critical(context: Context) -> Critical:
    """The critical threads in the steps that count; without events of host threads, no time is kept."""
    steps = program_steps(context).typical
    return critical_in(context, Intervals.union(steps.start_ns, steps.end_ns), len(steps))


def critical_in(context: Context, kept: Intervals, steps: int) -> Critical:
    """The critical threads in a given time, which counts as a given number of steps."""
    threads = critical_threads(context) or _busiest_pair(context)
    if not threads or not kept:
        return Critical(NO_PARENT, None, (), Intervals.none(), 0, Intervals.none(), Intervals.none())
    main, engine = threads[0], threads[1] if len(threads) > 1 else None
    none = Intervals.none()
    handed, episodes = (none, none) if engine is None else context.cached(_handed_over, main, engine)
    return Critical(main, engine, _others(context, threads), kept, steps, handed, episodes)


def device_idle(context: Context) -> Intervals | None:
    """When, in the steps that count, the busiest device had nothing to do because the host had launched nothing.

    That is its idle time of all causes except unrecorded work, pending work and pauses between events launched in time;
    None without device events.
    """
    steps = program_steps(context).typical
    return idle_in(context, steps.start_ns, steps.end_ns)


def idle_in(context: Context, start_ns: I64, end_ns: I64) -> Intervals | None:
    """When, within ascending intervals, the busiest device idled as in `device_idle`; None without device events."""
    number, _ = busiest(context, Intervals.union(start_ns, end_ns))
    if number is None or not len(start_ns):
        return None
    window = int(start_ns[0]), int(end_ns[-1])
    found = gaps.of_device(context, number, window)
    pieces, _ = found.cut(start_ns, end_ns)
    return gap_causes.starved(context, pieces)


def _busiest_pair(context: Context) -> tuple[int, ...]:
    """If nothing was launched: the thread with steps, else with most operators, else with most frames."""
    host, frames = context.trace.host, context.trace.frames
    marked = host.thread[context.kind == NodeKind.STEP]
    operators = host.thread[host_activity.operator_rows(context)]
    for column in (marked, operators, host.thread, context.trace.launches.thread, frames.thread):
        if len(column):
            main = _most_frequent(context, column)
            waiting = [own for own, other in context.cached(engines).items() if other == main]
            rows = host.thread[np.isin(host.thread, waiting)]
            return (main, _most_frequent(context, rows)) if len(rows) else (main,)
    return ()


def _most_frequent(context: Context, column: Array) -> int:
    """The thread that occurs most often; of several the first by its ids, independent of the order in the file."""
    numbers, counts = np.unique(column, return_counts=True)
    threads = context.trace.threads
    most: list[int] = numbers[counts == counts.max()].tolist()
    return min(most, key=lambda thread: (threads[thread].pid, threads[thread].tid))


def _others(context: Context, threads: tuple[int, ...]) -> tuple[int, ...]:
    loaders = distinct(context.trace.host.thread[context.kind == NodeKind.DATALOADER]).tolist()
    found = dict.fromkeys((*host_activity.launching_threads(context)[: _HELPERS + 2], *loaders))
    return tuple(thread for thread in found if thread not in threads)[:_HELPERS]


def _handed_over(context: Context, main: int, engine: int) -> tuple[Intervals, Intervals]:
    """When autograd works while the program's thread does nothing, and when it works at all.

    Pauses of autograd between two functions count as its work if the program's thread begins and ends nothing in them.
    """
    works = _working(context, engine)
    if not works:
        return works, works
    pause_start, pause_end = works.end[:-1], works.start[1:]
    moments = _moments(context, main)
    first_after = np.searchsorted(moments, pause_start, side="left")
    is_quiet = first_after == np.searchsorted(moments, pause_end, side="right")
    episodes = works | Intervals.union(pause_start[is_quiet], pause_end[is_quiet])
    return episodes - _working(context, main), episodes


def _working(context: Context, thread: int) -> Intervals:
    """When a thread runs operators or calls of the runtime."""
    host, launches = context.trace.host, context.trace.launches
    is_operator = host_activity.operator_rows(context) & ~is_mark(context)
    operators = gaps.times_of(host, is_operator & (host.thread == thread))
    return operators | gaps.times_of(launches, launches.thread == thread)


def _moments(context: Context, thread: int) -> I64:
    """When a thread begins or ends anything, ascending."""
    bounds = []
    for table in (context.trace.host, context.trace.frames, context.trace.launches):
        rows = np.flatnonzero(table.thread == thread)
        bounds += [table.start_ns[rows], table.end_ns[rows]]
    return ascending(np.concatenate(bounds))
