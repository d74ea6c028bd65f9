"""Matches two sequences of codes that should be equal: the nodes of a captured graph, and the events of one replay."""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.sums import group
from traceanalyzer.trace.table import I64, Array, Bool

NO_NODE = -1
_MOST_EDITS = 400
"""Own choice: the time grows with the number of codes without a partner."""


def in_order(nodes: I64, run: I64) -> I64:
    """For each code of `run`, the position of its partner in `nodes`, or -1; partners are ascending.

    Leaves out as few codes as possible (Myers, An O(ND) difference algorithm, 1986): a matching of the longest common
    pieces would shift whole layers, because layers are alike. If too many would be left out, nothing is matched.
    """
    partner = np.full(len(run), NO_NODE, np.int64)
    shorter = min(len(nodes), len(run))
    unequal = np.flatnonzero(nodes[:shorter] != run[:shorter])
    front = int(unequal[0]) if len(unequal) else shorter
    unequal = np.flatnonzero(nodes[len(nodes) - shorter + front :][::-1] != run[len(run) - shorter + front :][::-1])
    back = int(unequal[0]) if len(unequal) else shorter - front
    partner[:front] = np.arange(front)
    partner[len(run) - back :] = np.arange(len(nodes) - back, len(nodes))
    pairs = _least_edits(nodes[front : len(nodes) - back].tolist(), run[front : len(run) - back].tolist())
    for node, event in pairs:
        partner[front + event] = front + node
    return partner


def _least_edits(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Pairs of equal entries in ascending order, as many as possible; empty if more than a few have no partner."""
    reach = {1: 0}  # for each diagonal (left minus right position), the furthest left position
    history = []
    for edits in range(min(len(left) + len(right), _MOST_EDITS) + 1):
        history.append(reach.copy())
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            at = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            while at < len(left) and at - diagonal < len(right) and left[at] == right[at - diagonal]:
                at += 1
            reach[diagonal] = at
            if at >= len(left) and at - diagonal >= len(right):
                return _way_back(history, len(left), len(right))
    return []


def _way_back(history: list[dict[int, int]], at: int, other: int) -> list[tuple[int, int]]:
    """The pairs on the path to the ends of both lists.

    Args:
        history: How far each diagonal reached before each edit.
        at: Length of the left list.
        other: Length of the right list.
    """
    pairs = []
    for edits in range(len(history) - 1, 0, -1):
        reach, diagonal = history[edits], at - other
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        start = reach[before]
        equal = at - (start if down else start + 1)
        pairs += [(at - step, other - step) for step in range(1, equal + 1)]
        at, other = start, start - before
    pairs += [(at - step, other - step) for step in range(1, at + 1)]
    return pairs[::-1]


def between(partner: I64, nodes: Bool, events: Bool) -> I64:
    """Match unknown entries between the same matched neighbours, if both sides have equally many.

    After the last neighbour the first ones are matched: a writer may leave calls at the end of a capture.

    Args:
        partner: For each event its node, ascending, or -1.
        nodes: Which nodes are unknown entries, because their kernels are unknown.
        events: Which events are unknown entries, because no node is known to run them.
    """
    result = partner.copy()
    matched = np.flatnonzero(partner != NO_NODE)
    free, open_ = np.flatnonzero(nodes), np.flatnonzero(events)
    gap, gap_of = np.searchsorted(partner[matched], free), np.searchsorted(matched, open_)
    for number in np.intersect1d(gap, gap_of).tolist():
        here, there = free[gap == number], open_[gap_of == number]
        size = min(len(here), len(there))
        if len(here) == len(there) or number == len(matched):
            result[there[:size]] = here[:size]
    return result


def completed(partner: I64, nodes: I64, run: I64) -> I64:
    """Match the remaining entries on both sides by their index among equal codes.

    Parallel streams may start in another order than they were captured in.
    """
    open_run = np.flatnonzero(partner == NO_NODE)
    free = np.ones(len(nodes), np.bool_)
    free[partner[partner != NO_NODE]] = False
    open_nodes = np.flatnonzero(free)
    if len(open_run) and len(open_nodes):
        found, of = _same(numbered(nodes[open_nodes]), numbered(run[open_run]))
        partner[open_run[of]] = open_nodes[found]
    return partner


def by_place(kernels: Bool, kinds: Array, run_kernels: Bool, run_kinds: Array) -> I64 | None:
    """Match kernels one to one, and copies and fills by the kernels before them.

    Args:
        kernels: Which nodes are kernels.
        kinds: Kind of each node.
        run_kernels: Which events of the replay are kernels.
        run_kinds: Kind of each event of the replay.

    Returns:
        For each event of the replay its node, or -1; None if the numbers of kernels differ.
    """
    if kernels.sum() != run_kernels.sum():
        return None
    partner = np.full(len(run_kernels), NO_NODE, np.int64)
    partner[run_kernels] = np.flatnonzero(kernels)
    others, run_others = np.flatnonzero(~kernels), np.flatnonzero(~run_kernels)
    here = np.cumsum(kernels)[others] * 256 + kinds[others]
    there = np.cumsum(run_kernels)[run_others] * 256 + run_kinds[run_others]
    found, of = _same(numbered(here), numbered(there))
    partner[run_others[of]] = others[found]
    return partner


def numbered(codes: I64) -> list[tuple[int, int]]:
    """Each code with its index among equal codes."""
    seen: dict[int, int] = {}
    result = []
    for code in codes.tolist():
        seen[code] = number = seen.get(code, -1) + 1
        result.append((code, number))
    return result


def _same(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> tuple[I64, I64]:
    """Positions of the entries that both lists have, in the order of the second."""
    places = {entry: place for place, entry in enumerate(left)}
    pairs = [(places[entry], place) for place, entry in enumerate(right) if entry in places]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def common(nodes: I64, run: I64) -> int:
    """Upper bound of the matched codes: for each code, the smaller of its counts on both sides."""
    both = np.concatenate((nodes, run))
    if not len(both):
        return 0
    _, codes = np.unique(both, return_inverse=True)
    size = int(codes.max()) + 1
    here = np.bincount(codes[: len(nodes)], minlength=size)
    return int(np.minimum(here, np.bincount(codes[len(nodes) :], minlength=size)).sum())


def agreement(keys: I64, values: I64) -> float | None:
    """Consistency of keys and values: the share of rows that have the most frequent value of their key.

    Only keys that occur more than once count; None if there is no such key.
    """
    first, pairs = group(keys, values)
    key_of_pair, counts = keys[first], np.bincount(pairs, minlength=len(first))
    _, which = np.unique(key_of_pair, return_inverse=True)
    size = int(which.max()) + 1 if len(which) else 0
    most, every = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.maximum.at(most, which, counts)
    np.add.at(every, which, counts)
    repeated = every > 1
    return float(most[repeated].sum() / every[repeated].sum()) if repeated.any() else None


def most_frequent(keys: I64, values: I64, size: int) -> I64:
    """The most frequent value of each key below a size, the smallest of several; -1 for keys without values."""
    first, pairs = group(keys, values)
    counts = np.bincount(pairs, minlength=len(first))
    order = np.lexsort((-values[first], counts))
    result = np.full(size, NO_NODE, np.int64)
    result[keys[first][order]] = values[first][order]  # of several writes to an entry the last one counts
    return result
