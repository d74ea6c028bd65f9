"""Matches two sequences of codes that should be one: the nodes of a captured graph, and what one replay of it ran."""

from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np

from traceanalyzer.analyzers.sums import group
from traceanalyzer.trace.table import I64, Array, Bool

NO_NODE = -1


def in_order(nodes: I64, run: I64) -> I64:
    """For each code of `run` the position of its partner in `nodes`, or -1.

    What stands in the same order on both sides is matched first. What is left is matched by its number among equal
    codes, because streams that run side by side may finish in another order than they were captured in.
    """
    if len(nodes) == len(run) and bool((nodes == run).all()):
        return np.arange(len(run))
    partner = np.full(len(run), NO_NODE, np.int64)
    for block in SequenceMatcher(None, nodes.tolist(), run.tolist(), autojunk=False).get_matching_blocks():
        partner[block.b : block.b + block.size] = np.arange(block.a, block.a + block.size)
    return _completed(partner, nodes, run)


def _completed(partner: I64, nodes: I64, run: I64) -> I64:
    """Match what is left on both sides by its number among equal codes."""
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
        For each event of the replay its node, or -1; None where the numbers of kernels differ.
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
    """Each code with its number among equal codes."""
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
    """Most codes that any matching could pair: those that both sides have, as often as both have them."""
    both = np.concatenate((nodes, run))
    if not len(both):
        return 0
    _, codes = np.unique(both, return_inverse=True)
    size = int(codes.max()) + 1
    here = np.bincount(codes[: len(nodes)], minlength=size)
    return int(np.minimum(here, np.bincount(codes[len(nodes) :], minlength=size)).sum())


def agreement(keys: I64, values: I64) -> float | None:
    """How far equal keys have equal values: the share of rows that have the most frequent value of their key.

    Only keys that occur more than once can tell; None where there is no such key.
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
    result[keys[first][order]] = values[first][order]  # the last one that is written stays
    return result
