"""Finds the longest part of a sequence that repeats itself: what is alike has equal numbers."""

from __future__ import annotations

import numpy as np

from traceanalyzer.trace.table import I64

PASSES = 3
"""So often a part must repeat."""
LEAST = 5
"""Least length of what repeats (own choice: less is a loop over one function)."""
_TRIED = 64
"""Most kinds by whose distances a period is guessed (own choice: one of a pass's own is among them)."""
_LAST = 50_000
"""Longest part in whose end a period is looked for (own choice: each entry takes a microsecond)."""
_DONE = 0.75
"""Share of the sequence at whose end a period is looked for, too: a program may do something else when it is done."""


def longest_run(kind: I64, least: int = LEAST) -> tuple[int, int, int] | None:
    """First position, period, and position after the last of the longest periodic part; None without one.

    Args:
        kind: The kind of each operator, a number from 0 on, in the order of time.
        least: Least period.
    """
    best: tuple[int, int, int, int] | None = None
    for period in _periods(kind, least) if len(kind) else ():
        # a position is the same as one period earlier; the longest stretch of such positions, and the period before it
        is_same = np.concatenate(([False], kind[period:] == kind[:-period], [False]))
        change = np.flatnonzero(is_same[1:] != is_same[:-1])
        if not len(change):
            continue
        begins, ends = change[::2], change[1::2]
        longest = int(np.argmax(ends - begins))
        first, end = int(begins[longest]), int(ends[longest]) + period
        covered = (end - first) // period * period
        if covered >= PASSES * period and (best is None or covered > 1.05 * best[0]):
            best = covered, first, period, end
    return None if best is None else best[1:]


def _periods(kind: I64, least: int) -> list[int]:
    """Possible periods, ascending: usual distances within one kind, of the rarest ones, and periods of the ends."""
    counts = np.bincount(kind)
    rarest = [number for number in np.argsort(counts, kind="stable").tolist() if counts[number] >= PASSES][:_TRIED]
    others = np.flatnonzero(kind != kind[-1])
    ends = len(kind), int(others[-1]) + 1 if len(others) else 0, int(_DONE * len(kind))
    parts = [*(kind[:end][-_LAST:] for end in ends), kind[:_LAST][::-1]]
    distances = {_period_of_end(part) for part in parts}
    for number in rarest:
        apart = np.diff(np.flatnonzero(kind == number))
        distances.add(int(np.median(apart)))
    return sorted(distance for distance in distances if distance >= least)


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
        if number + 1 >= PASSES * (number + 1 - length):
            period = number + 1 - length
    return period
