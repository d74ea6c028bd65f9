"""What torch nests in what, and which of two nested events of one name it leaves out.

Unlike `trace.tree`, torch cuts nothing: an event that starts inside another and ends after it is nested in
the nearest event around both, or in none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.trace.distinct import stable_order
from traceanalyzer.trace.table import I32, I64, Array, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

_BEYOND = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Nesting:
    """Events by thread, start, longest first; parents come before children."""

    parent: I64
    """Position of the parent, or -1, after the duplicates were taken out."""
    duplicate: Bool
    """Only children of the name of their parent: torch keeps the parent, with the children of its child."""
    innermost: I64
    """For each event the last of the duplicates in it, or itself: torch keeps this one's kernels."""


def nest(thread: I32, start: I64, end: I64, name: I32) -> Nesting:
    """Nest events that are sorted by thread, start, longest first."""
    parent = _parents(thread, start, end)
    nested = np.flatnonzero(parent != NO_PARENT)
    duplicate = np.zeros(len(start), np.bool_)
    only = np.bincount(parent[nested], minlength=len(start))[parent[nested]] == 1
    duplicate[nested] = only & (name[nested] == name[parent[nested]])
    kept = _settled(np.where(duplicate, parent, np.arange(len(start))))
    return Nesting(
        parent=np.where(parent == NO_PARENT, NO_PARENT, entries(kept, parent, NO_PARENT)),
        duplicate=duplicate,
        innermost=_innermost(parent, duplicate, kept),
    )


def _parents(thread: I32, start: I64, end: I64) -> I64:
    """The parent is the last event before that ends no earlier (and has not ended at the start).

    Every event guesses the one right before it; a guess that ends too early is replaced by its own guess,
    which skips only events that end even earlier, until no guess is wrong.
    """
    size = len(start)
    # Later threads lie later, so that no event of an earlier one can be a parent; position 0 is "none".
    low = int(start.min()) if size else 0
    span = int(end.max()) - low + 2 if size else 0
    shift = np.cumsum(np.concatenate(([0], np.diff(thread) != 0)))[:size] * span - low
    reach = np.concatenate(([_BEYOND], end + shift))
    need = np.concatenate(([_BEYOND], np.maximum(end, start + 1) + shift))
    guess = np.maximum(np.arange(-1, size), 0)
    wrong = np.arange(1, size + 1)
    while len(wrong):
        wrong = wrong[reach[guess[wrong]] < need[wrong]]
        guess[wrong] = guess[guess[wrong]]
    return guess[1:] - 1


def _settled(pointer: I64) -> I64:
    """Follow pointers until they no longer change."""
    while True:
        further = pointer[pointer]
        if np.array_equal(further, pointer):
            return pointer
        pointer = further


def _innermost(parent: I64, duplicate: Bool, kept: I64) -> I64:
    innermost = np.arange(len(parent))
    has_duplicate = np.zeros(len(parent), np.bool_)
    has_duplicate[parent[duplicate]] = True
    last = np.flatnonzero(duplicate & ~has_duplicate)
    innermost[kept[last]] = last
    return innermost


def levels(parent: I64) -> list[Array]:
    """Group positions by depth, the deepest first."""
    depth = (parent != NO_PARENT).astype(np.int32)
    above = parent
    while (deeper := np.flatnonzero(above != NO_PARENT)).size:
        depth[deeper] += depth[above[deeper]]
        above = np.where(above == NO_PARENT, NO_PARENT, above[above])
    order = stable_order(depth)
    bounds = np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1))
    return list(reversed(np.split(order, bounds)))
