"""The longest part of what threads do that repeats, and how it is cut into repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.pass_signs import of_threads
from traceanalyzer.structure.recording.periods import LEAST, PASSES, longest_run
from traceanalyzer.structure.sums import Columns
from traceanalyzer.trace.table import I64, Bool

COVERS = 0.5
"""Share of the outermost operators that passes must exceed, and least share of the time from the first pass on."""
_FEWEST, _LAUNCHES = 2, 10
"""With so many launches, fewer operators are a pass, too (own choice: one operator makes a few)."""
_LAYERS = 6
"""So often a few operators must repeat to be the layers of a model (own choice)."""
_ALIKE = 0.8
"""Share of what a first pass does that the others do as well (own choice: it may allocate, or fill caches)."""
_LONGER = 3
"""The pauses of the host before passes are so many times as long as those before layers (own choice)."""
_FAR_LONGER, _MOST = 8, 0.9
"""So many times as long as before most of what repeats, the host pauses between passes, and not between the layers of
one (own choice: modules of Python take two or three times as long as launches)."""
_BLOCK = 0.1
"""Least share of a repetition that a run of equal layers has (own choice: a model has few kinds of them)."""
_PART = 0.25
"""Share of a sequence after whose begin, or before whose end, what comes in all passes must come (own choice)."""
_RARE = 0.1
"""Largest share of what a program does rarely beside what repeats (own choice)."""


class Items(Columns, frozen=True):
    """What threads do, in the order of time: operators or launches, and the waits for the device between them."""

    kind: I64
    """Equal numbers are alike."""
    start_ns: I64
    end_ns: I64
    number: I64
    """Position of the operator or launch among those given; of a wait, of the next one."""
    is_wait: Bool


class RepeatedRun(msgspec.Struct, frozen=True):
    """The longest part that repeats: its first position, the one after its last, and those of the repetitions."""

    first: int
    end: int
    begins: I64


def with_waits(
    context: Context,
    threads: Sequence[int | None],
    kind: I64,
    start_ns: I64,
    end_ns: I64,
    after_ns: int = 0,
) -> Items:
    """Operators or launches with the waits of their threads that are in none of them; ascending, without overlap."""
    waits = context.cached(host_activity.waits)
    own = np.flatnonzero(of_threads(waits.thread, threads) & (waits.start_ns >= after_ns))
    next_one = np.searchsorted(start_ns, waits.start_ns[own], side="right")
    is_between = waits.start_ns[own] >= np.append(0, end_ns)[next_one]
    own, next_one = own[is_between], next_one[is_between]
    return Items(
        kind=np.insert(kind, next_one, kind.max(initial=0) + 1),
        start_ns=np.insert(start_ns, next_one, waits.start_ns[own]),
        end_ns=np.insert(end_ns, next_one, waits.end_ns[own]),
        number=np.insert(np.arange(len(kind)), next_one, next_one),
        is_wait=np.insert(np.zeros(len(kind), np.bool_), next_one, np.True_),
    )


def repeated_part(context: Context, items: Items) -> RepeatedRun | None:
    """The longest periodic part, whose repetitions begin after a wait if they have some; None without one."""
    found = longest_run(items.kind) or longest_run(items.kind, _FEWEST)
    if found is None:
        return None
    first, period, end = found
    if period < LEAST and _launches(context, items, end - period, end) < _LAUNCHES:
        return None
    waits = np.flatnonzero(items.is_wait[end - period : end])
    if len(waits) == period:
        return None
    stop = end
    if not len(waits) and not first:
        stop -= _rest(items, period, end)
    elif len(waits) and waits[0] > 0:  # else a wait begins what repeats, as it must
        after_wait = end - period + int(waits[-1]) + 1  # a recording may end in the middle of a pass
        stop = after_wait if after_wait - first >= PASSES * period else end
    begins = _positions(first, period, stop)
    while items.is_wait[begins].all():
        begins += 1
    return RepeatedRun(first, end, begins)


def _positions(first: int, period: int, stop: int) -> I64:
    """Where the repetitions before a position begin, of which the first lies behind another position."""
    return stop - period * np.arange((stop - first) // period, 0, -1)


def _rest(items: Items, period: int, end: int) -> int:
    """How much of a pass follows the last whole one, of a sequence that repeats from its first position on.

    None if the host pauses longer before what begins so, than before what the sequence begins with.
    """
    rest = end % period
    from_start, from_end = (_pause_ns(items, _positions(0, period, stop)) for stop in (end - rest, end))
    return 0 if from_end > _LONGER * from_start else rest


def _pause_ns(items: Items, begins: I64) -> float:
    """The usual pause of the host before repetitions."""
    before = begins[begins > 0]
    return max(float(np.median(items.start_ns[before] - items.end_ns[before - 1])), 1.0)


def _launches(context: Context, items: Items, first: int, end: int) -> int:
    """How many calls launch something while a thread is at some of the items."""
    called = context.trace.launches.start_ns[context.links.calls]
    return int(((called >= items.start_ns[first]) & (called < items.end_ns[end - 1])).sum())


def of_pauses(items: Items, begins: I64) -> I64:
    """Every second, third, ... repetition if the host pauses longer before these than before others; else all."""
    before = begins[begins > 0]
    pauses = items.start_ns[before] - items.end_ns[before - 1]
    is_long = pauses > _LONGER * max(float(np.median(pauses)), 1.0)
    longer = np.flatnonzero(is_long) + (len(begins) - len(before))
    apart = np.diff(longer)
    if len(longer) < PASSES - 1 or (apart != apart[0]).any() or apart[0] < 2:
        return begins
    size = int(apart[0])
    is_everywhere = longer[0] <= size and len(begins) - longer[-1] <= size
    return begins[longer[0] % size :: size] if is_everywhere else begins


def is_most(items: Items, run: RepeatedRun) -> bool:
    """Whether whole repetitions have at least half of the launches."""
    first, second, last = items.number[run.begins[[0, 1, -1]]].tolist()
    return bool(last + (second - first) - first >= COVERS * (items.number[-1] + 1))


def is_all(items: Items, run: RepeatedRun) -> bool:
    """Whether the repetitions are all that was recorded, but for waits at the end and a first one that is unlike them.

    A model begins and ends with something that its layers do not do.
    """
    size = int(run.begins[1] - run.begins[0])
    head = items.kind[: run.first]
    is_known = np.isin(head, items.kind[run.begins[0] : run.begins[1]])
    is_cold_pass = not len(head) or (2 * len(head) >= size and is_known.mean() >= _ALIKE)
    return bool(is_cold_pass and items.is_wait[run.end :].all())


def has_blocks(kind: I64) -> bool:
    """Whether most of a repetition are parts that repeat themselves: the layers of a model, maybe of several kinds.

    A layer has some parts of a few operators, too, but not as many as a model has layers.
    """
    rest, covered = [kind], 0
    while rest:
        part = rest.pop()
        found = longest_run(part) or longest_run(part, _FEWEST)
        if found is None or found[2] - found[0] < _BLOCK * len(kind):
            continue
        first, period, end = found
        times = (end - first) // period
        covered += times * period * (period >= LEAST or times >= _LAYERS)
        rest += [part[:first], part[end:]]
    return covered >= COVERS * len(kind)


def pauses_before(items: Items) -> I64:
    """For how long the host pauses before each of some items, in ns; 0 for the first."""
    return items.start_ns - np.append(items.start_ns[:1], items.end_ns[:-1])


def after_pauses(pauses: I64, run: RepeatedRun) -> RepeatedRun | None:
    """The same repetitions, each of which begins after a pause of the host that is far longer than most; None without.

    So pauses a program between the passes of a model, whatever comes before them and after them.

    Args:
        pauses: Before each of all items.
        run: The repetitions.
    """
    size = int(run.begins[1] - run.begins[0])
    times = (run.end - max(run.first, 1)) // size
    rows = np.arange(run.end - times * size, run.end)
    usual = np.median(pauses[rows].reshape(times, size), axis=0)
    longest = int(np.argmax(usual))
    if usual[longest] <= _FAR_LONGER * max(float(np.quantile(usual, _MOST)), 1.0):
        return None
    return begun_at(run, int(rows[longest]))


def begun_at(run: RepeatedRun, position: int) -> RepeatedRun:
    """The same repetitions, each of which begins as one at a position does."""
    size = int(run.begins[1] - run.begins[0])
    first = run.first + (position - run.first) % size
    return RepeatedRun(run.first, run.end, np.arange(first, run.end - size + 1, size))


def with_last(run: RepeatedRun) -> I64:
    """Where the repetitions begin, and a last one that lacks something, but not half of it."""
    size, last = run.begins[1] - run.begins[0], run.begins[-1]
    rest = run.end - last - size
    return np.append(run.begins, last + size) if 2 * rest >= size else run.begins


def rare_ones(kind: I64, one: I64) -> Bool:
    """Which items are of a kind that is rare in a part, where such ones are few; else none.

    Args:
        kind: The kinds of all items.
        one: Those of the part.
    """
    if not len(one):
        return np.zeros(len(kind), np.bool_)
    counts = np.bincount(one, minlength=int(kind.max()) + 1)
    found: Bool = (PASSES * counts <= np.median(counts[counts > 0]))[kind]
    return found if found.mean() <= _RARE else np.zeros(len(kind), np.bool_)


def passing_ones(kind: I64) -> Bool:
    """Which items are of a kind that comes only in a part of a sequence, not nearly from its begin to its end."""
    positions, (first, last) = (
        np.arange(len(kind)),
        (np.full(int(kind.max(initial=0)) + 1, n) for n in (len(kind), 0)),
    )
    np.minimum.at(first, kind, positions)
    np.maximum.at(last, kind, positions)
    found: Bool = ((first > _PART * len(kind)) | (last < (1 - _PART) * len(kind)))[kind]
    return found
