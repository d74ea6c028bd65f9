"""When do operators and calls, quick as a rule, take milliseconds, although nothing happens inside?

A thread that loses its core stands still wherever it is: in an operator that only changes the view of a tensor, in a
launch call, in any other. A limit of the container, pinning to too few cores, or other programs take cores away. One
such operator may be slow for reasons of its own, several different ones hardly. Calls that wait, allocate or load code
are slow by themselves and do not count, nor does the first use of an operator or of a kernel. Of operators that only
change the view of a tensor, even the first call counts: there is nothing that they could load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, host_activity
from traceanalyzer.structure.analysis import OPERATORS, Analysis, Need
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.launch_calls import blocked_calls
from traceanalyzer.structure.operator_times import node_times
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import first_rows, group, members, rows_by
from traceanalyzer.trace.distinct import distinct, is_among, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

_LEAST_NS = 3_000_000
"""Least duration of a stall (own choice: the scheduler gives another thread some milliseconds)."""
_TIMES = 50
"""A stall is this many times as long as the median (own choice: inputs of other sizes differ less)."""
_USUAL = 8
"""Least number of calls of a name that show how long it takes as a rule (own choice)."""
_TIMES_EQUAL, _PEERS = 3, 3
"""A stall of an operator that computes is at least this many times as long as so many calls on the same inputs, or as
what every other step has where inputs were not recorded (own choice)."""
_QUICK_NS = 1_000_000
"""An operator that takes this long as a rule on some inputs is not quick (own choice: quick ones take microseconds)."""
_NAMES = 2
"""Least number of different operators and calls that only arrange or launch (own choice: one may have a reason)."""
_SHOWN = 10
_MAKES = re.compile(r"aten::(empty|result_type|resolve_)")
"""Operators that only arrange and allocate, or may copy."""
_LAUNCHES = re.compile(r"^(cuda|cu|hip|musa)(Ext|Module)?Launch(Cooperative)?Kernel(ExC?)?$")


class StallRow(msgspec.Struct, frozen=True):
    """Stalls in operators or calls of one name; times without operators and calls inside."""

    kind: str
    """`operator` or `call`."""
    name: str
    """Name of the operator or call."""
    stalls: int
    """Number of stalls."""
    time_ns: int
    """Their time in ns."""
    longest_ns: int
    """Time of the longest in ns."""
    longest_start_ns: int
    """Its start in ns since the first event."""
    usual_ns: int
    """Median time of the operator or call in the recording, in ns."""


class HostStalls(msgspec.Struct, frozen=True):
    """Stalls of threads in the typical steps; sums over them."""

    stalls: int
    """Number of stalls."""
    time_ns: int
    """Their time in ns, over all threads."""
    longest_ns: int
    """Time of the longest in ns."""
    rows: tuple[StallRow, ...]
    """Operators and calls with the longest stalls, at most ten, those with the most time first."""


class _Found(msgspec.Struct, frozen=True):
    """Stalls of the whole recording, as nodes of the host tree and as rows of the launch table."""

    nodes: I64
    calls: I64


def analyze(context: Context) -> HostStalls:
    """Add up the stalls of the chosen steps."""
    rows = sorted(_rows(context), key=lambda row: (-row.time_ns, row.name))
    return HostStalls(
        stalls=sum(row.stalls for row in rows),
        time_ns=sum(row.time_ns for row in rows),
        longest_ns=max((row.longest_ns for row in rows), default=0),
        rows=tuple(rows[:_SHOWN]),
    )


@event_set
def stalls_at(context: Context) -> Iterator[Occurrences]:
    """When threads of the host stand still."""
    stalls = context.cached(_find)
    yield from _operators_at(context, stalls.nodes)
    if len(stalls.calls):
        launches = context.trace.launches
        columns = (launches.thread, launches.start_ns, launches.end_ns)
        yield Occurrences("host", "stalls", *(column[stalls.calls].astype(np.int64) for column in columns))


@cached
def stalled_times(context: Context) -> Intervals:
    """When a thread of the host stands still."""
    found = list(stalls_at().found(context))
    none = np.empty(0, np.int64)
    starts = np.concatenate((none, *(each.start_ns for each in found)))
    return Intervals.union(starts, np.concatenate((none, *(each.end_ns for each in found))))


def _operators_at(context: Context, stalled: I64) -> Iterator[Occurrences]:
    """When operators stand still: without the operators and calls in them."""
    host, tree, launches = context.host, context.host.tree, context.trace.launches
    inner = np.flatnonzero((tree.parent != NO_PARENT) & ~host.merged)  # a merged one is the operator itself
    inner = inner[np.isin(host.top[tree.parent[inner]], stalled)]
    inside = rows_by(np.concatenate((tree.thread[inner], launches.thread)))
    start = np.concatenate((tree.start_ns[inner], launches.start_ns))
    end = np.concatenate((tree.end_ns[inner], launches.end_ns))
    for thread, rows in members(tree.thread[stalled]):
        nodes = stalled[rows]
        times = Intervals.union(tree.start_ns[nodes], tree.end_ns[nodes])
        times -= Intervals.union(start[inside(thread)], end[inside(thread)])
        yield Occurrences("host", "stalls", np.full(len(times), thread, np.int64), times.start, times.end)


@cached
def _find(context: Context) -> _Found:
    """Stalls, if several different operators and calls that only arrange or launch have some; else none."""
    host, launches, names = context.host, context.trace.launches, context.trace.names
    operators = np.flatnonzero(host.is_row & ~names.where(host_activity.is_communicating)[host.name])
    nodes = operators[_stalled(host.name[operators], context.cached(node_times).host_self_ns[operators])]
    arranges = names.where(host_activity.is_arranging)[host.name[nodes]]
    unlike = arranges | _unlike_equal_calls(context, nodes)
    nodes, arranges = nodes[unlike], arranges[unlike]
    calls = np.flatnonzero(_launching(context)) if arranges.any() else np.empty(0, np.int64)
    calls = calls[_stalled(launches.name[calls], launches.dur_ns[calls])]
    different = len(distinct(host.name[nodes][arranges])) + len(distinct(launches.name[calls]))
    if different < _NAMES or not arranges.any():
        return _Found(_alone(context, operators[names.where(is_view)[host.name[operators]]]), calls[:0])
    return _Found(nodes, calls)


def _unlike_equal_calls(context: Context, nodes: I64) -> Bool:
    """Which of some operators take far longer than calls with the same inputs, or than what every other step has.

    An operator that computes takes milliseconds on large inputs, each time, and microseconds on small ones.
    """
    host, time_ns, table = context.host, context.cached(node_times).host_self_ns, context.trace.host
    unlike = np.zeros(len(nodes), np.bool_)
    steps = len(program_steps(context).every)
    every = np.flatnonzero(host.is_row & is_among(host.name, distinct(host.name[nodes])))
    has_shapes = bool(table.shapes[host.row[every]].any())
    inputs = table.shapes[host.row[every]] if has_shapes else np.zeros(len(every), np.int64)
    for _, rows in members(group(host.name[every], inputs)[1]):
        longest = np.sort(time_ns[every[rows]])[::-1]
        usual = longest[len(longest) // 2 if has_shapes else min((steps - 1) // 2, len(longest) - 1)]
        if len(rows) >= _PEERS and (has_shapes or steps >= _PEERS):
            own = np.isin(nodes, every[rows])
            unlike[own] = (time_ns[nodes[own]] >= _TIMES_EQUAL * usual) & (usual < _QUICK_NS)
    return unlike


def is_view(name: str) -> bool:
    """Whether an operator only changes the view of a tensor, which takes microseconds on any inputs."""
    return host_activity.is_arranging(name) and _MAKES.match(name) is None


def _alone(context: Context, views: I64) -> I64:
    """Which of the operators that only change views stand still, compared to all of them; none that is compiled."""
    tree = context.host.tree
    time_ns = context.cached(node_times).host_self_ns[views]
    slow = time_ns >= max(_LEAST_NS, _TIMES * float(np.median(time_ns))) if len(views) > _USUAL else time_ns < 0
    compiling = context.trace.names.where(host_activity.is_compiling)[context.trace.host.name]
    found = views[slow]
    return found[~gaps.times_of(context.trace.host, np.flatnonzero(compiling)).contains(tree.start_ns[found])]


def _stalled(name: I32, time_ns: I64) -> Bool:
    """Which of some operators or calls take far longer than others of their name; never the first one."""
    stalled = np.zeros(len(name), np.bool_)
    slow = np.flatnonzero(is_among(name, distinct(name[time_ns >= _LEAST_NS])))
    for _, rows in members(name[slow]):
        own = slow[rows]
        if len(own) >= _USUAL:
            stalled[own[1:]] = time_ns[own[1:]] >= max(_LEAST_NS, _TIMES * float(np.median(time_ns[own])))
    return stalled


def _launching(context: Context) -> Bool:
    """Which calls launch a kernel that was launched before, without waiting for the device."""
    trace, launches = context.trace, context.trace.launches
    plain = trace.names.where(lambda name: _LAUNCHES.match(name) is not None)[launches.name]
    plain[context.cached(host_activity.waits).row] = False
    plain[blocked_calls(context)] = False
    launch = context.links.launch
    linked = np.flatnonzero(launch != NO_PARENT)
    linked = linked[np.argsort(launches.start_ns[launch[linked]], kind="stable")]
    codes, own = ranked(trace.device.name[linked])
    plain[launch[linked[first_rows(own, len(codes))]]] = False
    return plain


def _rows(context: Context) -> Iterator[StallRow]:
    """One row for each name, of what starts in the chosen steps."""
    stalls = context.cached(_find)
    host, launches = context.host, context.trace.launches
    operators = _Timed(host.name, host.tree.start_ns, context.cached(node_times).host_self_ns)
    calls = _Timed(launches.name, launches.start_ns, launches.dur_ns)
    yield from _of_kind(context, "operator", operators, stalls.nodes)
    yield from _of_kind(context, "call", calls, stalls.calls)


class _Timed(NamedTuple):
    """All operators, or all calls."""

    name: I32
    start_ns: I64
    time_ns: I64


def _of_kind(context: Context, kind: str, timed: _Timed, stalled: I64) -> Iterator[StallRow]:
    """One row for each name of some stalls, of those in the chosen steps."""
    stalled = stalled[context.in_scope(timed.start_ns[stalled])]
    if not len(stalled):
        return
    all_of = rows_by(timed.name)
    for code, rows in members(timed.name[stalled]):
        stalls = stalled[rows]
        time = timed.time_ns[stalls]
        longest = int(time.argmax())
        yield StallRow(
            kind=kind,
            name=context.trace.names[code],
            stalls=len(stalls),
            time_ns=int(time.sum()),
            longest_ns=int(time[longest]),
            longest_start_ns=int(timed.start_ns[stalls[longest]]),
            usual_ns=int(np.median(timed.time_ns[all_of(code)])),
        )


_STALLED = Need(
    Text("skip-no-stalls", "no operator that is quick as a rule took milliseconds"),
    lambda context: len(context.cached(_find).nodes) > 0,
)
ANALYSES = (Analysis(485, "host_stalls", HostStalls, analyze, needs=(OPERATORS, _STALLED), is_of_steps=True),)
