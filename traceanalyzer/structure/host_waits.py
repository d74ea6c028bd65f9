"""Waits of the host: for batches of loaders, and for the device; the operators around them, and what they cost there.

Steps and modules are left out of the operators around a wait, and an operator that calls itself counts once.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure import gap_causes, gaps, host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.late_starts import LEAST_NS, TIMES
from traceanalyzer.structure.sums import group, members, rows_by
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

LOADERS = 200
"""Greatest number of loaders in the result, those with the longest waits (own choice: each epoch may create one)."""
OPERATORS = 32
"""Greatest number of operators around a wait that are compared and shown, the innermost ones (own choice: programs nest
about a dozen, recursion has no end)."""
_SCALER, _ITEM = "aten::_amp_foreach_non_finite_check_and_unscale_", "aten::item"
_DRAWING = frozenset(f"aten::{name}" for name in ("rand", "randn", "randint", "randperm", "uniform_", "random_"))
"""Operators that draw random numbers which depend on no other tensor, as a sample of a distribution does."""
_BEFORE = 4
"""Operators before a reading that may have drawn it (own choice: a draw of two nested ones, scaled and shifted)."""
_LEAST_NS = 1_000_000
"""A process does not start in less (own choice: a fork of a program with torch takes some milliseconds)."""
_WORK = 0.1
"""Share of the time between two waits from which on operators are the program's own work (own choice)."""
AVOIDABLE = 4
"""Column of `costs` with the time that is saved without the wait."""


def is_in_process(name: str) -> bool | None:
    """Whether the iterator of this name prepares batches in the process that waits for them."""
    if "_SingleProcess" in name:
        return True
    return False if "_MultiProcessing" in name else None


@cached
def outermost_loads(context: Context) -> I64:
    """Positions of waits that do not lie within another wait."""
    is_wait, tree = context.host.kind == NodeKind.DATALOADER, context.host.tree
    rows = np.flatnonzero(is_wait)
    around = take_or(tree.nearest(is_wait), tree.parent[rows], NO_PARENT)
    outermost: I64 = rows[around == NO_PARENT]
    return outermost


@cached
def loader_waits(context: Context) -> tuple[I64, I64]:
    """Start and end of the waits within steps for loaders with worker processes, in the order of time."""
    tree, names = context.host.tree, context.trace.names
    rows = outermost_loads(context)
    in_workers = names.where(lambda name: is_in_process(name) is False)[context.host.name[rows]]
    rows = rows[in_workers & (context.steps.at(tree.start_ns[rows]) >= 0)]
    rows = rows[np.argsort(tree.start_ns[rows], kind="stable")]
    return tree.start_ns[rows], tree.end_ns[rows]


_BATCHES, _LONGER = 6, 10
"""Of so many waits or more, one that is so many times as long as the median, after such a pause, begins an epoch (own
choice)."""


@cached
def epoch_turns(context: Context) -> tuple[I64, I64]:
    """Positions of the last wait of each epoch and of the first one of the next, among `loader_waits`."""
    found = np.flatnonzero(_has_no_work(context) | (pauses(context) > 0))
    return found, found + 1


@cached
def _has_no_work(context: Context) -> Bool:
    """After which waits but the last the program does next to nothing for a while, and then waits again."""
    start, end = loader_waits(context)
    host = context.trace.host
    since, until = end[:-1], start[1:]
    gap = until - since
    own = host_activity.operator_rows(context)
    work = Intervals.union(host.start_ns[own], host.end_ns[own]).within(since, np.maximum(since, until))
    launched = np.diff(np.searchsorted(context.trace.launches.start_ns, np.stack((since, until))), axis=0)[0]
    found: Bool = (gap >= _LEAST_NS) & (work <= _WORK * gap) & (launched <= 0)
    return found


@cached
def pauses(context: Context) -> I64:
    """For how long the program pauses before each wait but the first that begins an epoch, in ns; 0 for other waits.

    So an epoch ends in programs that stop before the loader says that it has no more: they are done with a batch, and
    the processes of the loader end in the pause and start in the pause or in the wait, which is long, too.
    """
    start, end = loader_waits(context)
    host, launches = context.trace.host, context.trace.launches
    bounds = np.sort(np.concatenate((host.end_ns[host_activity.operator_rows(context)], launches.end_ns)))
    if len(start) < _BATCHES or not len(bounds):
        return np.zeros(max(0, len(start) - 1), np.int64)
    done = bounds[np.maximum(np.searchsorted(bounds, start[1:], side="right") - 1, 0)]
    pause, wait = start[1:] - np.maximum(done, end[:-1]), (end - start)[1:]
    long, late = (each >= max(_LEAST_NS, _LONGER * float(np.median(each))) for each in (pause, wait))
    found: I64 = np.where(long & late & ~_has_no_work(context), pause, 0)
    return found


@cached
def turn_starts(context: Context) -> I64:
    """When each of the epochs of `epoch_turns` ends: with its last wait, or when the program is done with its batch."""
    (last, first), (start, _) = epoch_turns(context), loader_waits(context)
    pause = pauses(context)[last]
    found: I64 = np.where(pause > 0, start[first] - pause, start[last])
    return found


@cached
def starting_workers(context: Context) -> Intervals:
    """When no worker has a batch, because those of an epoch have ended, and those of the next one start."""
    (last, first), (start, end) = epoch_turns(context), loader_waits(context)
    return Intervals.union(np.maximum(end[last], turn_starts(context)), start[first])


@cached
def scaler_reads(context: Context) -> I64:
    """Waits (rows of the launch table) in which AMP's gradient scaler reads whether the gradients are finite.

    They are those of the first `aten::item` after each check, on its thread: the program must know it.
    """
    host, tree, names = context.host, context.host.tree, context.trace.names
    checks = np.flatnonzero(host.name == names.code(_SCALER))
    items = np.flatnonzero(host.name == names.code(_ITEM))
    if not len(checks) or not len(items):
        return np.empty(0, np.int64)
    read = np.zeros(len(tree), np.bool_)
    read_by = rows_by(tree.thread[items])
    for thread, of_thread in members(tree.thread[checks]):
        own = items[read_by(thread)]
        own = own[np.argsort(tree.start_ns[own], kind="stable")]
        following = np.searchsorted(tree.start_ns[own], tree.end_ns[checks[of_thread]])
        read[own[distinct(following[following < len(own)])]] = True
    waits = context.cached(host_activity.waits)
    rows: I64 = waits.row[take_or(tree.nearest(read), context.links.node[waits.row], NO_PARENT) != NO_PARENT]
    return rows


def reads_random(context: Context, waits: HostWaits) -> Bool:
    """Which of some waits read a value that one of the few operators before the reading drew at random."""
    tree, names = context.host.tree, context.trace.names
    is_item = context.host.name == names.code(_ITEM)
    item = take_or(tree.nearest(is_item), context.links.node[waits.row], NO_PARENT)
    drawn, is_open = np.zeros(len(item), np.bool_), item != NO_PARENT
    if not is_open.any():
        return drawn
    draws = names.where(_DRAWING.__contains__)[context.host.name]
    for back in range(1, _BEFORE + 1):
        node = np.maximum(item - back, 0)
        is_open &= (item >= back) & (tree.thread[node] == tree.thread[item]) & ~is_item[node]
        drawn |= is_open & draws[node]
    return drawn


def operator_chains(context: Context, node: I64) -> I64:
    """A number for each node; two nodes have the same number if the same operators are around them.

    Args:
        context: Of the trace.
        node: Positions in the host tree; -1 for a call outside of every node.
    """
    above = context.cached(_named_above)
    chain, around = np.zeros(len(node), np.int64), _first_named(context, node)
    for _ in range(OPERATORS):
        counted = np.flatnonzero(around != NO_PARENT)
        if not len(counted):
            break
        # Each level gives new numbers; those without a further name keep theirs, which count fewer names.
        longer = group(chain[counted], context.host.name[around[counted]])[1]
        chain[counted] = int(chain.max()) + 1 + longer
        around = above[around]
    return chain


def too_deep(context: Context) -> int:
    """Number of waits that lie in more than `OPERATORS` operators, so that the outermost are ignored."""
    above = context.cached(_named_above)
    around = _first_named(context, context.links.node[context.cached(host_activity.waits).row])
    for _ in range(OPERATORS):
        around = above[around]
    return int((around != NO_PARENT).sum())


def _first_named(context: Context, position: I64) -> I32:
    """For each node, itself or its nearest ancestor that is named; -1 for none."""
    return take_or(context.cached(_nearest_named), position, np.int32(NO_PARENT))


def operators_around(context: Context, node: int) -> tuple[str, ...]:
    """Names of a node and of the operators around it, outermost first; at most the innermost `OPERATORS`."""
    above = context.cached(_named_above)
    found: list[str] = []
    around = int(_first_named(context, np.array([node]))[0])
    while around != NO_PARENT and len(found) < OPERATORS:
        found.append(context.trace.names[context.host.name[around]])
        around = int(above[around])
    return tuple(reversed(found))


def _named_above(context: Context) -> I32:
    """The nearest named ancestor of each node, -1 for none; one more -1 at the end answers for the position -1."""
    nearest = np.append(context.cached(_nearest_named), np.int32(NO_PARENT))
    return np.append(nearest[context.host.tree.parent], np.int32(NO_PARENT))


def _nearest_named(context: Context) -> I32:
    """For each node, itself or its nearest ancestor that is named around a wait; -1 for none.

    Steps and modules are not named, nor is an operator that calls itself again.
    """
    host = context.host
    return host.tree.nearest((host.kind != NodeKind.MODULE) & (host.kind != NodeKind.STEP) & ~host.merged)


def costs(context: Context) -> I64 | None:
    """What each wait of the trace costs on its device; None where no device activity was recorded.

    Columns, in ns: the device's idle time during the wait; 1 if the device has nothing to do after it, else 0; for how
    long; the part of that without another reason; and the time that is saved without the wait, which is never longer
    than the wait itself.
    """
    if not (context.trace.device.device != UNKNOWN).any():
        return None
    waits = context.cached(host_activity.waits)
    idle = np.zeros(len(waits), np.int64)
    drained, late = np.zeros(len(waits), np.int64), np.zeros(len(waits), np.int64)
    for number, rows in members(_devices(context, waits)):
        busy = gaps.busy(context, number)
        start, end = waits.start_ns[rows], waits.end_ns[rows]
        worked = busy.within(start, end)
        idle[rows] = end - start - worked
        drained[rows] = _until_next(busy, end, worked > 0)
        late[rows] = _held_up(context, number).within(end, end + drained[rows])
    timeline = gap_causes.explicit(context)
    explained = timeline.within(waits.end_ns, waits.end_ns + drained, gap_causes.EXPLICIT)
    unexplained = np.maximum(0, drained - sum(explained) - late)
    avoidable = np.minimum(waits.end_ns - waits.start_ns, unexplained)
    return np.column_stack((idle, drained > 0, drained, unexplained, avoidable))


def _held_up(context: Context, number: int) -> Intervals:
    """Time in which a device does nothing although work was launched: another process has it, or it saves power."""
    found = gaps.of_device(context, number, (0, context.trace.info.span_ns))
    found = found.take((found.launch >= 0) & found.is_first_of_launch & found.has_previous)
    launched = np.maximum(found.whole_start_ns, context.trace.launches.end_ns[found.launch])
    delay = np.maximum(found.whole_end_ns - launched, 0)
    late = delay >= max(LEAST_NS, TIMES * float(np.median(delay)) if len(delay) else 0.0)
    return Intervals.union(launched[late], found.whole_end_ns[late])


def idle_after(context: Context, calls: I64) -> tuple[I64, I64, I64] | None:
    """The idle time that each of some waits (rows of the launch table) costs: device, start and end of each.

    It begins when the wait ends, and is as long as `costs` says. None where no device activity was recorded.
    """
    costs_of_waits = context.cached(costs)
    if costs_of_waits is None:
        return None
    waits = context.cached(host_activity.waits)
    avoidable = costs_of_waits[:, AVOIDABLE]
    rows = np.flatnonzero(is_among(waits.row, calls) & (avoidable > 0))
    end = waits.end_ns[rows]
    return _devices(context, waits)[rows], end, end + avoidable[rows]


def _until_next(busy: Intervals, end: I64, worked: Bool) -> I64:
    """From each end of a wait to the next activity, if the device worked during the wait and is idle at its end.

    Where several waits end in the same gap, each has the time until the next one ends.
    """
    following = np.searchsorted(busy.start, end, side="right")
    reach = take_or(busy.end, following - 1, 0)
    drains = np.flatnonzero(worked & (following < len(busy)) & (reach <= end))
    gap = following[drains]
    until = busy.start[gap]
    order = np.lexsort((end[drains], gap))
    same_gap = gap[order][1:] == gap[order][:-1]
    until[order[:-1][same_gap]] = end[drains][order[1:][same_gap]]
    idle = np.zeros(len(end), np.int64)
    idle[drains] = until - end[drains]
    return idle


def _devices(context: Context, waits: HostWaits) -> I64:
    """The device that each wait is for: that of the thread's last launch before it, else of its next one.

    A thread that launched nothing waits for the device that ran most.
    """
    device = context.trace.device
    launch = context.links.launch
    numbers, counts = np.unique(device.device[device.device != UNKNOWN], return_counts=True)
    where = np.full(len(waits.row), int(numbers[counts.argmax()]), np.int64)
    if len(numbers) == 1:
        return where
    linked = np.flatnonzero((launch != NO_PARENT) & (device.device != UNKNOWN))
    by_launch = linked[np.argsort(launch[linked], kind="stable")]
    launched_by = rows_by(context.trace.launches.thread[launch[by_launch]])
    for thread, rows in members(waits.thread):
        launched = by_launch[launched_by(thread)]
        if len(launched):
            before = np.searchsorted(launch[launched], waits.row[rows], side="right") - 1
            where[rows] = device.device[launched[np.maximum(before, 0)]]
    return where
