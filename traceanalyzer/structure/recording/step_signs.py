"""Signs of steps that the profiler did not mark: marks of the framework, optimizers in turn, repeated graphs.

Several optimizers may take turns in one step, such as those of a generator and a discriminator. Their ranges have the
same name, so they are told apart by what autograd evaluates before each: as often as it takes turns, in the same order.
A validation every few updates evaluates nothing and changes no turn.

A program may be cut into several graphs, such as one for each layer, which it launches in the same order in each step.
Graphs are distinguished by the names of what runs in them.

A program that calls the same modules again and again makes a pass each time; and so does one that calls one of its own
functions for each request, whatever is in it.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.knowledge import python_frames
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.launch_calls import graph_calls
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.structure.recording.frameworks import main_framework
from traceanalyzer.structure.recording.left_out import FEWEST
from traceanalyzer.structure.recording.periods import LEAST, longest_run
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import count_by, group, members, sum_by
from traceanalyzer.trace.distinct import ascending, distinct, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_NEVER = np.iinfo(np.int64).max
_OVERLAP = 0.1
"""Share of marks that may start within an earlier one and end after it; if there are more, they are requests in
flight."""
_BETWEEN = 0.5
"""Share of the work within the annotation from which on work between its occurrences belongs to the step as well."""
_MOST_OPTIMIZERS = 4
"""Greatest number of optimizers in turn that is recognized (own choice: losses of every eighth step are no turn)."""
_CALLED = 0.5
"""Least share of the time from the first pass on in which its modules are called (own choice)."""
_NOTHING = 0.02
"""Share of the time of marks that take turns up to which nothing is between them (own choice: some lines of Python)."""
_ITERATES = 0.6
"""Least share of the recording in calls of a function that the program iterates (own choice: the rest is waiting)."""
_EXAMINED = 1000
"""Number of calls that are examined (own choice), so that many updates and functions make no large table."""
_REPEATS = 3
"""Number of whole turns that it takes to recognize them."""
_ENDS = 0.1
"""Share of the operators and launches after another call of the loader up to which one ends an epoch (own choice: the
seeds of the next one are drawn)."""
_FEW_UPDATES = 3
"""Most updates of a training of which each iteration counts (own choice)."""
_WHOLE, _REST = 0.9, 0.1
"""Least share of the operators of others that a first iteration has, and greatest one of what follows the last update
(own choice)."""
_GRAPH_REPEATS = 3
"""How often a graph must repeat to define steps."""
_MOST_PERIODS = 200
"""Number of lengths of a repeating sequence that are tried (own choice)."""


def step_marks(context: Context) -> tuple[I64, dict[int, StepMark]]:
    """Host rows that are step marks of the main framework, and what the mark of each name says, by its code."""
    framework, trace = main_framework(context), context.trace
    if framework is None or framework.step_mark is None:
        return np.empty(0, np.int64), {}
    annotation = np.flatnonzero(trace.host.category == Category.ANNOTATION)
    codes = distinct(trace.host.name[annotation]).tolist()
    said = {code: mark for code in codes if (mark := framework.step_mark(trace.names[code])) is not None}
    return annotation[np.isin(trace.host.name[annotation], [*said])], said


def outermost(context: Context, rows: I64) -> I64:
    """The host rows that do not start within another of the given rows."""
    start, end = context.trace.host.start_ns[rows], context.trace.host.end_ns[rows]
    before = np.maximum.accumulate(np.append(-1, end))[:-1]
    return rows[start >= before]


def loads(context: Context) -> tuple[I64, int, Bool]:
    """When the program asks its loader for data, when it ends, and which calls have a batch to work on.

    The others end an epoch: hardly anything is called between them and the next epoch, which may start workers anew.
    """
    host, rows = (
        context.trace.host,
        outermost(context, np.flatnonzero(context.kind == NodeKind.DATALOADER)),
    )
    operators = host.start_ns[host.category == Category.OPERATOR]
    works = ascending(np.append(operators, context.trace.launches.start_ns[context.links.calls]))
    until = np.append(host.start_ns[rows[1:]], _NEVER)
    begun = np.searchsorted(works, until) - np.searchsorted(works, host.end_ns[rows])
    has_batch = begun > _ENDS * np.median(begun) if len(rows) > _REPEATS else np.ones(len(rows), np.bool_)
    if 2 * has_batch.sum() < len(rows):  # a loader that is only read
        has_batch = np.arange(len(rows)) < len(rows) - (not begun[-1:].any())
    ends_by_loader = len(rows) > 0 and not has_batch[-1]
    return (
        host.start_ns[rows],
        int((host.start_ns[rows[-1]] if ends_by_loader else host.end_ns).max(initial=0)),
        has_batch,
    )


def first_use_ns(context: Context) -> int:
    """When the program first loads code for a device, or takes memory from its driver."""
    launches = context.trace.launches
    takes = np.flatnonzero(context.trace.names.where(host_activity.is_taking)[launches.name])
    rows = np.append(takes, host_activity.loading_calls(context))
    return int(launches.start_ns[rows].min(initial=np.iinfo(np.int64).max))


def turns(context: Context, thread: int) -> I64:
    """The marks of a thread that begin a turn: two or more of other names follow one another in the same order.

    Only of programs that neither train nor load data, whose marks follow something else; none where there are no turns.
    """
    kind = context.kind
    is_other = (kind == NodeKind.OPTIMIZER) | (kind == NodeKind.DATALOADER)
    is_plain = not is_other.any() and not context.cached(evaluations).any()
    rows, size = _in_turn(context, thread) if is_plain else (np.empty(0, np.int64), 0)
    return rows[::size] if size and _fill(context, rows) else rows[:0]


def turns_around(context: Context, marks: I64) -> I64:
    """The marks that begin turns of which some marks are a part, with nothing between them; else these marks.

    A program that collects data and then trains on it marks both, and its iteration is the pair of them.
    """
    host = context.trace.host
    rows, size = _in_turn(context, int(host.thread[marks[0]]))
    if not size or not np.isin(marks, rows).all():
        return marks
    between = int(np.maximum(host.start_ns[rows[1:]] - host.end_ns[rows[:-1]], 0).sum())
    span = int(host.end_ns[rows[-1]] - host.start_ns[rows[0]])
    return rows[::size] if between <= _NOTHING * span else marks


def _in_turn(context: Context, thread: int) -> tuple[I64, int]:
    """The outermost marks of a thread, and after how many of them, all of other names, they begin anew; else 0."""
    host, kind = context.trace.host, context.kind
    plain = (host.category == Category.ANNOTATION) & (kind == NodeKind.NONE)
    rows = outermost(context, np.flatnonzero(plain & (host.thread == thread)))
    names = ranked(host.name[rows])[1]
    size = period(names) if len(rows) else 0
    return rows, size if 1 < size == len(distinct(names)) else 0


def _fill(context: Context, rows: I64) -> bool:
    """Whether marks take most of the time from the first to the last one."""
    host = context.trace.host
    return 2 * int(host.dur_ns[rows].sum()) >= int(host.end_ns[rows].max() - host.start_ns[rows].min())


def _launched_work(called: I64, times: I64, start: I64, end: I64) -> tuple[int, int]:
    """How much device time is launched within marks and between them.

    Args:
        called: When each device event was launched.
        times: How long each takes.
        start: Starts of the marks, which do not overlap; ascending.
        end: Ends of the marks.
    """
    mark = np.searchsorted(start, called, side="right") - 1
    is_inside = called < take_or(end, mark, 0)
    is_between = ~is_inside & (mark >= 0) & (mark < len(start) - 1)
    return int(times[is_inside & (mark >= 0)].sum()), int(times[is_between].sum())


def hold_the_work(context: Context, marks: I64) -> bool:
    """Whether little work is done between the marks, which do not overlap, compared to the work within them.

    What is done is device time by the launch, or time of operators on any thread where the device has none; in one
    pause, compared to one mark.
    """
    trace = context.trace
    start, end = trace.host.start_ns[marks], trace.host.end_ns[marks]
    launched = context.links.launch != NO_PARENT
    if int(trace.device.dur_ns[launched].sum()):
        called = trace.launches.start_ns[context.links.launch[launched]]
        inside, between = _launched_work(called, trace.device.dur_ns[launched], start, end)
    else:
        operators = times_of(trace.host, trace.host.category == Category.OPERATOR)
        inside = int(operators.within(start, end).sum())
        between = int(operators.within(end[:-1], start[1:]).sum())
    pauses = len(marks) - 1
    return between * len(marks) < _BETWEEN * inside * pauses or not between


def are_in_flight(context: Context, rows: I64) -> bool:
    """Whether many of some host rows start in an earlier one and outlast it: requests that are served together."""
    start, end = context.trace.host.start_ns[rows], context.trace.host.end_ns[rows]
    before = np.maximum.accumulate(np.append(-1, end))[:-1]
    return int(((start < before) & (end > before)).sum()) > _OVERLAP * len(rows)


def trains_after_work(context: Context, marks: I64, passes: I64, works: I64) -> Bool:
    """Which marks contain a backward pass or an optimizer's update, and operators of their thread before it.

    Args:
        context: The trace.
        marks: Host rows.
        passes: Starts of backward passes and updates, ascending.
        works: Starts of operators of the thread, ascending.
    """
    begin, end = context.trace.host.start_ns[marks], context.trace.host.end_ns[marks]
    first = np.minimum(take_or(passes, np.searchsorted(passes, begin), _NEVER), end)
    return (first < end) & (np.searchsorted(works, first) > np.searchsorted(works, begin))


def marks_within(context: Context, steps: Steps) -> tuple[StepMark | None, ...]:
    """What the framework's only mark in each step says; None for steps with none or several, empty without any."""
    rows, said = step_marks(context)
    start, end = steps.mark_ns or (steps.start_ns, steps.end_ns)
    times = context.trace.host.start_ns[rows := outermost(context, rows)]
    step = np.searchsorted(start, times, side="right") - 1
    inside = times < take_or(end, step, 0)
    rows, step = rows[inside], step[inside]
    if not len(rows):
        return ()
    alone = count_by(step, len(steps))[step] == 1
    marks: list[StepMark | None] = [None] * len(steps)
    for row, number in zip(rows[alone].tolist(), step[alone].tolist(), strict=True):
        marks[number] = said[int(context.trace.host.name[row])]
    return tuple(marks)


def updates_of_a_step(context: Context, calls: I64) -> int:
    """The number of calls of optimizers from which on they repeat; 1 if they all are alike, or not periodic.

    Args:
        context: Of the trace.
        calls: Rows of the host table that are calls of `step`, in the order of time, shape (calls,).
    """
    if len(calls) < 2 * _REPEATS:
        return 1
    calls = calls[:_EXAMINED]
    classes = period(ranked(context.trace.host.name[calls])[1])
    if classes > 1:
        return classes  # an optimizer of few parameters in an inner loop, and one of another class around it
    what = _between(context, calls)
    if (what[1:] == what[:-1]).all():
        return 1
    fitting = range(2, min(_MOST_OPTIMIZERS, len(calls) // _REPEATS) + 1)
    return next((turns for turns in fitting if (what[turns:] == what[:-turns]).all()), 1)


def whole_iterations(context: Context, updates: I64, size: int) -> I64 | None:
    """When the iterations of a short training begin, each of which ends with an update; None if it is not short.

    Where steps begin with updates, there is one less, and the first begins with the first use of the optimizer. None as
    well if the recording does not begin with an iteration, or does not end with one.

    Args:
        context: The trace.
        updates: Rows of the host table that are calls of `step`, in the order of time.
        size: How many belong to one iteration.
    """
    host, (begin, end) = context.trace.host, (updates[::size], updates[size - 1 :: size])
    if not FEWEST <= len(begin) == len(end) <= _FEW_UPDATES:
        return None
    operators = host.start_ns[host.category == Category.OPERATOR]
    until = np.searchsorted(operators, [*host.end_ns[end].tolist(), _NEVER])
    of_each = np.diff(until, prepend=0)
    fewest = int(of_each[1:-1].min())
    if of_each[0] < _WHOLE * fewest or of_each[-1] > _REST * fewest:
        return None
    begun_ns = min([*operators[:1].tolist(), *context.trace.launches.start_ns[:1].tolist()])
    return np.append(begun_ns, host.end_ns[end[:-1]])


def _between(context: Context, calls: I64) -> I64:
    """What lies between each call and the next one: how often autograd evaluates each function, and the call's name.

    Returns:
        Shape (calls - 1, functions + 1).
    """
    host, tree = context.trace.host, context.host.tree
    nodes = np.flatnonzero(context.cached(evaluations))
    codes, function = ranked(host.name[context.host.row[nodes]])
    call = np.searchsorted(host.start_ns[calls], tree.start_ns[nodes], side="right") - 1
    within = (call >= 0) & (call < len(calls) - 1)
    shape = len(calls) - 1, len(codes)
    counts = np.bincount(call[within] * shape[1] + function[within], minlength=shape[0] * shape[1]).reshape(shape)
    return np.column_stack((counts, host.name[calls[:-1]]))


def graph_starts(context: Context) -> I64 | None:
    """When steps start, in ns; None where no graph repeats three times.

    Where graphs alternate in a fixed order, the launch after the longest pause begins the step; where pauses are equal,
    that of the graph with most kernels. Else it is the graph that ran most kernels in all.
    """
    launches = context.trace.launches
    rows = np.flatnonzero(graph_calls(context))
    if len(rows) < _GRAPH_REPEATS:
        return None
    graph, kernels = _graphs(context, rows)
    if not kernels.any():
        return None
    size = period(graph)
    if size > 1:
        return launches.start_ns[rows[_opens(launches.start_ns[rows], launches.end_ns[rows], kernels, size) :: size]]
    _, first, kind, counts = np.unique(graph, return_index=True, return_inverse=True, return_counts=True)
    most = int(np.lexsort((kernels[first], counts * kernels[first]))[-1])
    return launches.start_ns[rows[kind == most]] if counts[most] >= _GRAPH_REPEATS and kernels[first[most]] else None


def _graphs(context: Context, rows: I64) -> tuple[I64, I64]:
    """For each launch of a graph, a number that identifies the graph, and how much runs in it.

    The number does not depend on the order of names, which changes from launch to launch if several streams run.
    """
    place = np.full(len(context.trace.launches) + 1, NO_PARENT, np.int64)
    place[rows] = np.arange(len(rows))
    own = place[context.links.launch]
    names = context.trace.device.name[own != NO_PARENT].astype(np.uint64) + np.uint64(1)
    own = own[own != NO_PARENT]
    mixed = names * np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads small numbers
    mixed = (mixed ^ (mixed >> np.uint64(29))) >> np.uint64(24)  # 40 bits: sums of millions stay exact
    return sum_by(own, mixed.astype(np.int64), len(rows)), count_by(own, len(rows))


def period(values: I64) -> int:
    """After how many rows a column repeats itself, from its first to its last row and three times or more; else 0."""
    longest = len(values) // _GRAPH_REPEATS
    candidates = 1 + np.flatnonzero(values[1 : longest + 1] == values[0])[:_MOST_PERIODS]
    return next((n for n in candidates.tolist() if np.array_equal(values[n:], values[:-n])), 0)


def _opens(start: I64, end: I64, kernels: I64, period: int) -> int:
    """Which of the alternating launches begins the step."""
    offset = np.arange(1, len(start)) % period
    pauses = sum_by(offset, start[1:] - end[:-1], period) // np.maximum(count_by(offset, period), 1)
    return int(np.lexsort((-np.arange(period), kernels[:period], pauses))[-1])


def module_starts(context: Context) -> I64 | None:
    """When each pass begins that calls the same modules as the pass before; None where none were recorded or repeat.

    The layers of a model are objects of their own, which its passes call again, whatever the shapes are: these grow
    where a sequence does. Modules that are called by others are no passes, so a cell that a model calls for each point
    in time is none.
    """
    calls, frames = _outermost_modules(context), context.trace.frames
    run = longest_run(group(frames.name[calls].astype(np.int64))[1], 1)
    if run is None:
        return None
    first, period, end = run
    stop = end if first else end - end % period  # a recording may end in the middle of a pass
    begins = np.arange(stop - (stop - first) // period * period, stop, period)
    are_models = _are_models(context, calls[begins[0] : stop], int(frames.end_ns[calls[-1]]), len(begins))
    return frames.start_ns[calls[begins]] if are_models else None


def _are_models(context: Context, calls: I64, end_ns: int, passes: int) -> bool:
    """Whether calls of modules are much of the time until an end, and compute something in each pass."""
    frames, host = context.trace.frames, context.trace.host
    start_ns = int(frames.start_ns[calls[0]])
    operators = host.start_ns[host.category == Category.OPERATOR]
    inside = np.diff(np.searchsorted(operators, [start_ns, frames.end_ns[calls[-1]]]))[0]
    return bool(inside >= LEAST * passes and frames.dur_ns[calls].sum() >= _CALLED * (end_ns - start_ns))


def _outermost_modules(context: Context) -> I64:
    """Calls of modules that no other module calls, on the thread with most of their time: rows of the frames."""
    host, frames = context.host, context.trace.frames
    is_module = host.kind == NodeKind.MODULE
    is_inner = take_or(host.module, host.tree.parent, NO_PARENT) != NO_PARENT
    calls: I64 = host.row[is_module & ~is_inner].astype(np.int64)
    if not len(calls):
        return calls
    threads, thread = np.unique(frames.thread[calls], return_inverse=True)
    calls = calls[thread == np.argmax(sum_by(thread, frames.dur_ns[calls], len(threads)))]
    return calls[np.argsort(frames.start_ns[calls], kind="stable")]


def function_calls(context: Context, thread: int | None) -> tuple[I64, int, str]:
    """Starts of the calls of a function of the program that it calls again and again, the last end, and its name.

    It is the outermost such function, and takes most of the recording. A model calls a function of a layer again and
    again as well: within a forward pass, and without waiting for the device in each. No starts where there is none.
    """
    frames = context.trace.frames
    is_own = context.trace.names.where(python_frames.is_own)[frames.name] & (frames.module_id == UNKNOWN)
    rows = np.flatnonzero(is_own & (frames.thread == thread))
    rows = rows[np.lexsort((-frames.dur_ns[rows], frames.start_ns[rows]))]
    longest, most = rows[:0], _ITERATES * context.trace.info.span_ns
    for _, own in members(frames.name[rows]):
        calls = _not_within_itself(context, rows[own])
        time = int(frames.dur_ns[calls].sum())
        if len(calls) >= _REPEATS and time >= most and _are_iterations(context, calls):
            longest, most = (
                calls,
                time + 1,
            )  # of equal ones the outermost, which begins first
    if not len(longest):
        return rows[:0], 0, ""
    name = context.trace.names[int(frames.name[longest[0]])]
    return frames.start_ns[longest], int(frames.end_ns[longest[-1]]), name


def _not_within_itself(context: Context, calls: I64) -> I64:
    """The calls of a function that are not within another one of it, by their start."""
    frames = context.trace.frames
    before = np.maximum.accumulate(np.append(-1, frames.end_ns[calls]))[:-1]
    return calls[frames.start_ns[calls] >= before]


def _are_iterations(context: Context, calls: I64) -> bool:
    """Whether calls of a function compute something, wait for the device if there is one, and are no part of a pass."""
    frames, host = context.trace.frames, context.trace.host
    start, end = frames.start_ns[calls], frames.end_ns[calls]
    passes = (frames.module_id != UNKNOWN) | context.trace.names.where(_is_of_pass)[frames.name]
    passes &= frames.thread == frames.thread[calls[0]]
    if Intervals.union(frames.start_ns[passes], frames.end_ns[passes]).contains(start).any():
        return False
    works = np.sort(host.start_ns[host.category == Category.OPERATOR])
    signs = [works] if not len(context.trace.device) else [works, np.sort(context.cached(host_activity.waits).start_ns)]
    inside = [np.searchsorted(each, end) > np.searchsorted(each, start) for each in signs]
    return all(each.mean() >= 1 - _OVERLAP for each in inside)


def _is_of_pass(name: str) -> bool:
    return name.endswith(("): forward", "): __call__"))
