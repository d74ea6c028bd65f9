"""Does the program read values of tensors one by one in Python, or print tensors?

A reading is a call of `aten::item`, `aten::is_nonzero`, `aten::equal` or `aten::_local_scalar_dense` that the program
makes itself, not an operator or autograd: `float(t)`, `if t > 0:`, `max(row)`. In loops it is also a copy of a few
bytes from a device that is waited for: `t.cpu()`. Readings that follow each other with little between them are a run: a
few cheap operators, no call of a module, no matrix product, no long time of Python. To print a tensor of floating-point
numbers, PyTorch selects its finite values first (`torch/_tensor_str.py`), so a run with `aten::isfinite` and
`aten::masked_select` prints. What `torch.distributions` reads to check its arguments is no reading of the program
(`distribution_checks`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.waits.distribution_checks import (
    READING,
    check_frames,
    checks_without_frames,
)
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.idle_times import IdleTime, ended_earlier, summed
from traceanalyzer.structure.line_times import longest_lines
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, members, rows_by, sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_PRINTING = frozenset({"aten::isfinite", "aten::masked_select"})
_HEAVY = re.compile(
    r"^aten::(\w*(mm|matmul|bmm|linear|conv\w*|einsum|lstm\w*|gru\w*|rnn\w*|attention\w*|embedding\w*))$|^autograd::"
    r"|^torch\.distributed\.ddp\.reducer::"
)
"""Operators of models: a value that is read after them is a result, not one value of many. So are those of
DistributedDataParallel, whose reducer reads for each parameter whether it was used."""
_BETWEEN = 16
"""Operators between two readings of a run at most (own choice: printing calls 14 before its first)."""
_PAUSE_NS = 200_000
"""Python time between two readings at most (own choice: the body of a loop takes some microseconds per operator)."""
_FEWEST = 3
"""Readings of a run at least (own choice: a loss and an accuracy are two)."""
_OF_A_LOOP, _LONG_PAUSE_NS = 10, 1_000_000
"""From so many readings on that follow each other after equally many operators, with pauses of at most so long between
them, each is a run: a loop over samples, whose Python code may stay (own choice)."""
_COPYING = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
_FEW_BYTES = 64
"""Largest copy from a device that reads values (own choice: eight numbers)."""
_LINES = 5
_LONG_NS = 20_000
"""Mean time of an operator from which on it computes more than one value of a few (own choice: a call with next to no
work takes 2 to 5 us)."""
_MADE_SHOWN = 3


class ReadLine(msgspec.Struct, frozen=True):
    """Runs of readings that begin at one Python line, or under one mark."""

    name: str
    """The line `file.py(12): function`, the innermost module or mark, or the operator that reads."""
    is_line: bool
    """Whether the name is a Python line."""
    readings: int
    """Readings in the typical steps."""
    time_ns: int
    """Time of the runs in ns."""
    start_ns: int
    """Start of the longest run in ns since the first event."""


class ValueReads(msgspec.Struct, frozen=True):
    """Runs of readings in the typical steps; times in ns are sums over them."""

    steps: int
    """Number of typical steps."""
    readings: int
    """Values that are read in runs that print nothing."""
    time_ns: int
    """Time of these runs, with the operators that make the values and the Python code between them."""
    operators: int
    """Events that the profiler recorded in these runs."""
    prints: int
    """Runs that print tensors."""
    printing_ns: int
    """Time of these."""
    printing_operators: int
    """Events that the profiler recorded in these."""
    lines: tuple[ReadLine, ...]
    """Start of each run that prints nothing, the longest run first, at most five."""
    printing_lines: tuple[ReadLine, ...]
    """Start of each run that prints, the longest run first, at most five."""
    beside_ns: int = 0
    """Python time directly before and after the runs that print nothing, which may belong to them: iterating over what
    is read, and storing the values."""
    idle_ns: int | None = None
    """Time of the runs that print nothing in which no device works; None without a device."""
    printing_idle_ns: int | None = None
    """Time of the runs that print in which no device works; None without a device."""
    made_by: tuple[str, ...] = ()
    """Operators that take long in runs that print nothing, such as those of statistics, the one with most time first;
    at most three."""
    made_ns: int = 0
    """Time of these operators and further ones that take long, in runs that print nothing."""
    exposed: tuple[IdleTime, ...] = ()
    """How much earlier the device could have gone on if the runs that print nothing took no time, by cause."""


def analyze(context: Context) -> ValueReads:
    """Add up the runs."""
    found = context.cached(value_runs)
    time = found.end_ns - found.start_ns
    prints = found.prints
    made_by, made_ns = _made(context, found, ~prints)
    start, end = found.start_ns[~prints], found.end_ns[~prints]
    idle = time - gaps.any_busy(context).within(found.start_ns, found.end_ns) if len(context.trace.device) else None
    return ValueReads(
        steps=len(program_steps(context).typical),
        readings=int(found.readings[~prints].sum()),
        time_ns=int(time[~prints].sum()),
        operators=int(found.events[~prints].sum()),
        prints=int(prints.sum()),
        printing_ns=int(time[prints].sum()),
        printing_operators=int(found.events[prints].sum()),
        lines=_lines(context, found, ~prints),
        printing_lines=_lines(context, found, prints),
        beside_ns=_beside(context, found, ~prints),
        idle_ns=None if idle is None else int(idle[~prints].sum()),
        printing_idle_ns=None if idle is None else int(idle[prints].sum()),
        made_by=made_by,
        made_ns=made_ns,
        exposed=() if idle is None else summed(ended_earlier(context, start, end, end - start)),
    )


class ValueRuns(msgspec.Struct, frozen=True):
    """Runs in typical steps, in the order of thread and time."""

    first: I64
    """The first operator of each, a node of the host tree."""
    start_ns: I64
    end_ns: I64
    readings: I64
    events: I64
    """Recorded events within each."""
    prints: Bool

    @property
    def times(self) -> Intervals:
        """Intervals in which values are read."""
        return Intervals.union(self.start_ns, self.end_ns)


@event_set
def value_runs_at(context: Context, *, prints: bool) -> Iterator[Occurrences]:
    """When values are read one after another in typical steps, to print them or not."""
    found = context.cached(value_runs)
    own = found.prints == prints
    thread = context.host.tree.thread[found.first[own]].astype(np.int64)
    yield Occurrences("host", "value reads", thread, found.start_ns[own], found.end_ns[own])


def value_runs(context: Context) -> ValueRuns:
    """Find runs of readings in typical steps."""
    tree = context.host.tree
    nodes = _called(context)
    step = program_steps(context).typical.at(tree.start_ns[nodes])
    readings, in_loop = _readings(context, nodes, step)
    if len(readings) < _FEWEST:
        none = np.empty(0, np.int64)
        return ValueRuns(none, none, none, none, none, np.empty(0, np.bool_))
    walls = _walls(context, nodes)
    bounds = _bounds(readings, walls, step)
    of_loop = in_loop[bounds[:-1]]
    printing = context.trace.names.where(_PRINTING.__contains__)[context.host.name[nodes]]
    begin = _with_operands(readings[bounds[:-1]], readings, bounds, walls, printing, of_loop)
    last = readings[bounds[1:] - 1]
    count = np.diff(bounds)
    kept = ((count >= _FEWEST) | of_loop) & (step[begin] >= 0) & (step[last] >= 0)
    begin = begin[kept]
    last = last[kept]
    first_node = nodes[begin]
    last_node = nodes[last]
    return ValueRuns(
        first_node,
        tree.start_ns[first_node],
        tree.end_ns[last_node],
        count[kept],
        tree.after[last_node].astype(np.int64) - first_node,
        _print(begin, last, printing),
    )


def _bounds(readings: I64, walls: I64, step: I64) -> I64:
    """Where runs begin among the readings, and their number: those of a run are close, between two walls, in a step."""
    left = readings[:-1]
    right = readings[1:]
    joined = (right - left <= _BETWEEN + 1) & (walls[right] == walls[left]) & (step[right] == step[left])
    return np.flatnonzero(np.concatenate(([True], ~joined, [True])))


def _in_loops(readings: I64, walls: I64, step: I64) -> Bool:
    """Which readings are those of a loop: many at equal distances, between two walls, in a step."""
    apart = np.diff(readings)
    joined = (apart <= _BETWEEN + 1) & (np.diff(walls[readings]) == 0) & (np.diff(step[readings]) == 0)
    chain = np.cumsum(np.concatenate(([True], ~joined[1:] | (apart[1:] != apart[:-1])))) if len(apart) else apart
    many = joined & (count_by(chain, int(chain.max(initial=0)) + 1) >= _OF_A_LOOP - 1)[chain]
    found: Bool = np.append(many, False) | np.insert(many, 0, False)
    return found


def _print(begin: I64, last: I64, printing: Bool) -> Bool:
    """Which runs have enough of the operators that printing calls, from the first to the last node."""
    printed = np.concatenate(([0], np.cumsum(printing)))
    prints: Bool = printed[last + 1] - printed[begin] >= len(_PRINTING)
    return prints


def _readings(context: Context, nodes: I64, step: I64) -> tuple[I64, Bool]:
    """Positions of the nodes that read a value, and which of them are those of a loop; a copy reads only in a loop.

    Left out are those by which a distribution checks its arguments.
    """
    host, tree = context.host, context.host.tree
    reads = context.trace.names.where(READING.__contains__)[host.name[nodes]]
    reads &= ~context.cached(check_frames).contain(context, tree.thread[nodes], tree.start_ns[nodes])
    reads &= ~np.isin(host.row[nodes], context.cached(checks_without_frames)[:, 1])
    found = np.flatnonzero(reads | _copies_few(context, nodes))
    in_loop = _in_loops(found, _walls(context, nodes, _LONG_PAUSE_NS), step)
    kept = reads[found] | in_loop
    return found[kept], in_loop[kept]


def _copies_few(context: Context, nodes: I64) -> Bool:
    """Which nodes are operators that copy a few bytes from a device, and wait for them, as `t.cpu()` does.

    Others learn the size of their result so.
    """
    device, launch, node = context.trace.device, context.links.launch, context.links.node
    is_back = context.trace.names.where(lambda name: host_activity.direction(name) == "DtoH")[device.name]
    copies = launch[is_back & (device.bytes <= _FEW_BYTES) & (device.bytes > 0)]
    waits = np.append(node, NO_PARENT)[context.cached(host_activity.waits).row]
    found = context.trace.names.where(_COPYING.__contains__)[context.host.name[nodes]]
    for calls in (np.append(node, NO_PARENT)[copies], waits):
        own = calls[calls != NO_PARENT] if len(nodes) else calls[:0]
        around = np.searchsorted(nodes, own, side="right") - 1
        inside = (around >= 0) & (own < context.host.tree.after[nodes[around]])
        found &= np.isin(np.arange(len(nodes)), around[inside])
    return found


def _walls(context: Context, nodes: I64, pause_ns: int = _PAUSE_NS) -> I64:
    """For each node, the number of what ended a run up to it: other work, another thread, or a pause.

    Other work has a number of its own, so that no run begins with it.
    """
    host, tree = context.host, context.host.tree
    thread = tree.thread[nodes]
    start = tree.start_ns[nodes]
    end = tree.end_ns[nodes]
    is_other = context.trace.names.where(lambda name: _HEAVY.match(name) is not None)[host.name[nodes]]
    is_other |= host.kind[nodes] != NodeKind.OPERATOR
    is_wall = is_other.copy()
    is_wall[1:] |= is_other[:-1] | (thread[1:] != thread[:-1]) | (start[1:] - end[:-1] > pause_ns)
    walls: I64 = np.cumsum(is_wall)
    return walls


def _with_operands(begin: I64, at: I64, bounds: I64, walls: I64, printing: Bool, of_loop: Bool) -> I64:
    """Start of each run, with as many operators before the first reading as before the second; or of its printing."""
    second = np.append(at, 2 * at[-1] - at[-2])[bounds[:-1] + 1]
    before = np.where((bounds[1:] - bounds[:-1] > 1) | of_loop, second - begin - 1, 0)
    nearest = np.maximum.accumulate(np.where(printing, np.arange(len(printing)), -1))
    selects = nearest[begin]
    isfinite = np.where(selects > 0, nearest[np.maximum(selects - 1, 0)], selects)
    first = np.where(
        (begin - isfinite <= _BETWEEN) & (isfinite >= 0),
        isfinite,
        begin - np.minimum(before, _BETWEEN),
    )
    previous = np.concatenate(([-1], at))[bounds[:-1]]
    wall = np.searchsorted(walls, walls[begin])  # the first operator after a node that ends a run
    operand: I64 = np.maximum(np.maximum(first, wall), previous + 1)
    return operand


def _called(context: Context) -> I64:
    """Operators, modules and evaluations in no operator, loader or optimizer, by thread and time."""
    host, names = context.host, context.trace.names
    is_range = np.isin(host.kind, (NodeKind.OPERATOR, NodeKind.PYTHON))
    is_called = names.where(lambda name: marks.is_namespaced(name) or marks.is_backward(name))[host.name]
    is_called |= names.where(marks.is_optimizer)[host.name]
    closed = (is_range & is_called) | np.isin(host.kind, (NodeKind.DATALOADER, NodeKind.OPTIMIZER))
    return np.flatnonzero(closed & (host.tree.around(closed) == 0))


def _beside(context: Context, found: ValueRuns, wanted: Bool) -> int:
    """Time in which no event of the thread was recorded, directly before and after runs, within their steps."""
    tree = context.host.tree
    steps = program_steps(context).typical
    start = found.start_ns[wanted]
    end = found.end_ns[wanted]
    step = steps.at(start)
    before = steps.start_ns[step]
    after = steps.end_ns[step]
    nodes_of = rows_by(tree.thread)
    for thread, runs in members(tree.thread[found.first[wanted]]):
        nodes = nodes_of(thread)
        before[runs] = np.maximum(before[runs], _last(tree.end_ns[nodes], start[runs]))
        after[runs] = np.minimum(after[runs], _next(tree.start_ns[nodes], end[runs]))
    around = np.minimum(start - before, _PAUSE_NS) + np.minimum(after - end, _PAUSE_NS)
    return int(around.sum())


def _last(times: I64, until: I64) -> I64:
    """The last of some times until each moment; the least number of 64 bits where none is."""
    times = np.sort(times)
    return take_or(times, np.searchsorted(times, until, side="right") - 1, np.iinfo(np.int64).min)


def _next(times: I64, since: I64) -> I64:
    """The first of some times from each moment on; the greatest number of 64 bits where none is."""
    times = np.sort(times)
    return take_or(times, np.searchsorted(times, since), np.iinfo(np.int64).max)


def _made(context: Context, found: ValueRuns, wanted: Bool) -> tuple[tuple[str, ...], int]:
    """The operators that take long within runs, and the time of all of them; what reads is none of them."""
    tree, names = context.host.tree, context.trace.names
    nodes = _called(context)
    reads = names.where(READING.__contains__)
    nodes = nodes[~reads[context.host.name[nodes]]]
    run = np.searchsorted(found.start_ns[wanted], tree.start_ns[nodes], side="right") - 1
    thread = tree.thread[found.first[wanted]]
    inside = (run >= 0) & (tree.start_ns[nodes] < take_or(found.end_ns[wanted], run, 0))
    nodes = nodes[inside & (tree.thread[nodes] == take_or(thread, run, NO_PARENT))]
    codes, number = ranked(context.host.name[nodes])
    time, calls = sum_by(number, tree.dur_ns[nodes], len(codes)), count_by(number, len(codes))
    long = np.flatnonzero(time >= _LONG_NS * calls)
    first = long[np.argsort(-time[long], kind="stable")][:_MADE_SHOWN]
    return tuple(str(names[code]) for code in codes[first].tolist()), int(time[long].sum())


def _lines(context: Context, found: ValueRuns, wanted: Bool) -> tuple[ReadLine, ...]:
    runs: defaultdict[tuple[str, bool], list[int]] = defaultdict(list)
    rows = np.flatnonzero(wanted)
    for row, place in zip(rows.tolist(), _places(context, found, rows), strict=True):
        runs[place].append(row)
    lines = [_line(found, name, rows, is_line=is_line) for (name, is_line), rows in runs.items()]
    return tuple(sorted(lines, key=lambda line: (-line.time_ns, line.name))[:_LINES])


def _places(context: Context, found: ValueRuns, rows: I64) -> Iterator[tuple[str, bool]]:
    """For each run the line that reads, else the module or mark around it; and whether it is a line."""
    host, names = context.host, context.trace.names
    first = found.first[rows]
    lines = longest_lines(context, host.tree.thread[first], found.start_ns[rows], found.end_ns[rows])
    around = host.tree.nearest((host.kind == NodeKind.MODULE) | _is_mark(context))[first]
    for line, node in zip(lines.tolist(), around.tolist(), strict=True):
        if line != NO_PARENT:
            yield names[line], True
        elif node != NO_PARENT:
            yield names[int(host.name[node])], False
        else:
            yield "aten::item", False


def _line(found: ValueRuns, name: str, runs: list[int], *, is_line: bool) -> ReadLine:
    time = found.end_ns[runs] - found.start_ns[runs]
    longest = runs[int(time.argmax())]
    return ReadLine(
        name,
        is_line,
        int(found.readings[runs].sum()),
        int(time.sum()),
        int(found.start_ns[longest]),
    )


def _is_mark(context: Context) -> Bool:
    """Ranges that the program sets around parts of its step."""
    host, names = context.host, context.trace.names
    ranges = names.where(lambda name: marks.is_mark_among_operators(name) and not marks.is_wrapper(name))
    is_mark: Bool = (host.kind == NodeKind.OPERATOR) & ranges[host.name]
    return is_mark


_READINGS = Need(
    Text(
        "skip-no-value-reads",
        "the program reads no values of tensors one after another in its steps",
    ),
    lambda context: len(context.cached(value_runs).start_ns),
)
ANALYSES = (Analysis(460, "value_reads", ValueReads, analyze, needs=(_READINGS,), is_of_steps=True),)
