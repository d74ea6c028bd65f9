"""Finds where the passes of a program without marks begin: before each backward pass, or where its operators repeat.

Layers of a model repeat, too. So operators that repeat are passes only if the program waits for the device in each, or
for autograd, because no model waits between two of its layers; or if the first operator takes a tensor of a shape that
no other one takes, because a layer takes what the layer before it gave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import backward, critical_threads, graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.step_signs import outermost
from traceanalyzer.structure.sums import group
from traceanalyzer.structure.unrecorded_work import waits_for_mac
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

BACKWARD = "backward pass"
OPERATORS = "repeated operators"
KERNELS = "repeated kernels"
FOUND_BY = (BACKWARD, OPERATORS, KERNELS)
"""How steps are called that were found so."""

_PASSES = 3
"""Operators must repeat so often to be passes."""
_LEAST = 5
"""Least outermost operators of a pass (own choice: fewer are a loop over one function)."""
_COVERS = 0.5
"""Share of the outermost operators that passes must exceed, and least share of the time from the first pass on."""
_TRIED = 64
"""Most kinds of operators by whose distances a period is guessed (own choice: one of a pass's own is among them)."""
_LAST = 50_000
"""Most operators at the end in which a period is looked for (own choice: each takes a microsecond)."""


def forward_starts(context: Context) -> I64 | None:
    """When the forward pass before each backward pass begins, in its outermost operator; None where none repeats."""
    passes, created = context.cached(backward), context.cached(graph)
    if len(passes.start_ns) < 2 or not len(created.node):
        return None
    # of the functions that forward passes create, the first one after each backward pass but the last began
    after_ns = np.append(np.iinfo(np.int64).min, passes.start_ns[:-1])
    first = np.searchsorted(created.start_ns, after_ns, side="right")
    before_its_backward = np.append(created.start_ns, np.iinfo(np.int64).max)[first] < passes.start_ns
    if not before_its_backward.all():
        return None  # several backward passes follow one forward pass
    tree = context.host.tree
    is_operator = context.host.category == Category.OPERATOR
    return tree.start_ns[_outermost_around(context, created.node[first], is_operator)]


def _outermost_around(context: Context, nodes: I64, is_wanted: np.ndarray) -> I64:
    """For each of some nodes the outermost one around it of those that are wanted, or itself."""
    tree, found = context.host.tree, nodes.copy()
    around = tree.nearest(is_wanted)
    while True:
        outer = np.where(tree.parent[found] >= 0, around[tree.parent[found]], -1)
        if (outer < 0).all():
            return found
        found = np.where(outer >= 0, outer, found)


def operator_starts(context: Context) -> I64 | None:
    """When each pass begins whose outermost operators are those of the pass before; None where nothing repeats so.

    Waits for the device between operators are part of what repeats: they tell passes from the layers of one.
    """
    threads = critical_threads(context)
    thread = threads[0] if threads else host_activity.with_most_rows(context)
    host = context.trace.host
    rows = np.flatnonzero((host.category == Category.OPERATOR) & (host.thread == thread))
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    rows = outermost(context, rows)
    if len(rows) < _PASSES * _LEAST:
        return None
    _, kind = group(host.name[rows].astype(np.int64), host.shapes[rows].astype(np.int64))
    items = _with_waits(context, thread, kind, host.start_ns[rows], host.end_ns[rows])
    begins = _begins(items)
    if begins is None:
        return None
    first, last = items.number[begins[0]], items.number[begins[-1]]
    one = rows[first : items.number[begins[1]]]
    repeated = rows[first : last + len(one)]
    later_ns = host.dur_ns[rows[first:]].sum()  # what comes before may be a first pass, which takes long
    if len(repeated) <= _COVERS * len(rows) or host.dur_ns[repeated].sum() < _COVERS * later_ns:
        return None
    start_ns, end_ns = items.start_ns[begins], int(host.end_ns[repeated].max())
    waits = _waits_in_each(context, thread, start_ns, end_ns) or _trains_in_each(context, start_ns, end_ns)
    return start_ns if waits or _has_input_of_its_own(context, one) else None


def launch_starts(context: Context) -> I64 | None:
    """When each pass of a recording without operators begins, by its first launch; None where nothing repeats so.

    What repeats are kernels, copies and fills in the order of their launches, by name.
    """
    launch, device, launches = context.links.launch, context.trace.device, context.trace.launches
    threads = critical_threads(context)
    if not threads or (context.trace.host.category == Category.OPERATOR).any():
        return None
    rows = np.flatnonzero(launch != NO_PARENT)
    rows = rows[launches.thread[launch[rows]] == threads[0]]
    rows = rows[np.argsort(launches.start_ns[launch[rows]], kind="stable")]
    if len(rows) < _PASSES * _LEAST:
        return None
    calls = launch[rows]
    kind = device.name[rows].astype(np.int64)
    items = _with_waits(context, threads[0], kind, launches.start_ns[calls], launches.end_ns[calls])
    begins = _begins(items)
    if begins is None:
        return None
    first, second, last = items.number[begins[[0, 1, -1]]].tolist()
    if last + (second - first) - first < _COVERS * len(rows):
        return None
    start_ns = items.start_ns[begins]
    return start_ns if _waits_in_each(context, threads[0], start_ns, int(items.start_ns[-1])) else None


class _Items(NamedTuple):
    """What a thread does, in the order of time: operators or launches, and the waits for the device between them."""

    kind: I64
    """Equal numbers are alike."""
    start_ns: I64
    number: I64
    """Position of the operator or launch among those given; of a wait, of the next one."""
    is_wait: Bool


def _with_waits(context: Context, thread: int | None, kind: I64, start_ns: I64, end_ns: I64) -> _Items:
    """Operators or launches with the waits of their thread that are in none of them; ascending, without overlap."""
    waits = context.cached(host_activity.waits)
    times = np.sort(waits.start_ns[waits.thread == thread])
    next_one = np.searchsorted(start_ns, times, side="right")
    is_between = times >= np.append(0, end_ns)[next_one]
    times, next_one = times[is_between], next_one[is_between]
    return _Items(
        kind=np.insert(kind, next_one, kind.max() + 1),
        start_ns=np.insert(start_ns, next_one, times),
        number=np.insert(np.arange(len(kind)), next_one, next_one),
        is_wait=np.insert(np.zeros(len(kind), np.bool_), next_one, np.True_),
    )


def _begins(items: _Items) -> I64 | None:
    """Positions at which the repetitions of the longest periodic part begin, each after a wait if they have some."""
    run = _longest_run(items.kind)
    if run is None:
        return None
    first, period, end = run
    waits = np.flatnonzero(items.is_wait[end - period : end])
    if len(waits) == period:
        return None
    if len(waits) and waits[0] > 0:  # else a wait begins what repeats, as it must
        after_wait = end - period + int(waits[-1]) + 1  # a recording may end in the middle of a pass
        end = after_wait if after_wait - first >= _PASSES * period else end
    passes = (end - first) // period
    begins = end - period * np.arange(passes, 0, -1)
    while items.is_wait[begins].all():
        begins += 1
    return begins


def _longest_run(kind: I64) -> tuple[int, int, int] | None:
    """First position, period, and position after the last of the longest periodic part; None without one.

    Args:
        kind: The kind of each operator, a number from 0 on, in the order of time.
    """
    best: tuple[int, int, int, int] | None = None
    for period in _periods(kind):
        # a position is the same as one period earlier; the longest stretch of such positions, and the period before it
        is_same = np.concatenate(([False], kind[period:] == kind[:-period], [False]))
        change = np.flatnonzero(is_same[1:] != is_same[:-1])
        if not len(change):
            continue
        begins, ends = change[::2], change[1::2]
        longest = int(np.argmax(ends - begins))
        first, end = int(begins[longest]), int(ends[longest]) + period
        covered = (end - first) // period * period
        if covered >= _PASSES * period and (best is None or covered > 1.05 * best[0]):
            best = covered, first, period, end
    return None if best is None else best[1:]


def _periods(kind: I64) -> list[int]:
    """Possible periods, ascending: usual distances between operators of one kind, the rarest first; that of the end."""
    counts = np.bincount(kind)
    rarest = [number for number in np.argsort(counts, kind="stable").tolist() if counts[number] >= _PASSES][:_TRIED]
    distances = {_period_of_end(kind[-_LAST:])}
    for number in rarest:
        apart = np.diff(np.flatnonzero(kind == number))
        distances.add(int(np.median(apart)))
    return sorted(distance for distance in distances if distance >= _LEAST)


def _period_of_end(kind: I64) -> int:
    """The period with which the longest part at the end repeats, of those that repeat often enough; 0 without one.

    From the end backwards, `border[n]` is the longest part that the last n operators begin and end with (the failure
    function of Knuth, Morris and Pratt), so that they repeat with the period n - border[n].
    """
    backwards = kind[::-1].tolist()
    border, length, period = [0] * (len(backwards) + 1), 0, 0
    for number in range(1, len(backwards)):
        while length and backwards[number] != backwards[length]:
            length = border[length]
        length += backwards[number] == backwards[length]
        border[number + 1] = length
        if number + 1 >= _PASSES * (number + 1 - length):
            period = number + 1 - length
    return period


def _has_input_of_its_own(context: Context, rows: I64) -> bool:
    """Whether the first of some operators takes a tensor of a shape that none of the others takes."""
    host, texts = context.trace.host, context.trace.shapes
    first, *others = (Inputs(texts[code], None).shapes or () for code in host.shapes[rows].tolist())
    taken = {shape for shapes in others for shape in shapes}
    return bool(first) and bool(first[0]) and first[0] not in taken


def _waits_in_each(context: Context, thread: int | None, start_ns: I64, end_ns: int) -> bool:
    """Whether the thread waits for the device in each pass, the last of which may wait after its last operator."""
    waits, host, rows = context.cached(host_activity.waits), context.trace.host, waits_for_mac(context)
    of_mac = host.start_ns[rows[host.thread[rows] == thread]]
    return _in_each(np.append(waits.start_ns[waits.thread == thread], of_mac), start_ns, end_ns)


def _trains_in_each(context: Context, start_ns: I64, end_ns: int) -> bool:
    """Whether autograd evaluates functions in each pass, after the last operator of the last one, too.

    Their names tell them from others even where no numbers of autograd were recorded.
    """
    host = context.trace.host
    return _in_each(host.start_ns[context.trace.names.where(marks.is_backward)[host.name]], start_ns, end_ns)


def _in_each(times: I64, start_ns: I64, end_ns: int) -> bool:
    """Whether some of the times lie in each pass; a program that waits before each may end without a wait."""
    times = np.sort(times)
    until = np.append(start_ns[1:], max(end_ns, int(times.max(initial=0)) + 1))
    counts = np.searchsorted(times, until) - np.searchsorted(times, start_ns)
    is_before = bool((times < start_ns[0]).any())
    return bool((counts[:-1] > 0).all()) and (bool(counts[-1]) or is_before)
