"""How well do the events of a replay match a captured graph?

Kernels decide: copies and fills may be missing on one side. If calls name the kernels that they launch (HIP), names
must agree. If they do not (CUDA), kernels are matched by their order, and checked with facts of the capture: the same
operator with the same inputs runs the same kernels in every layer, a product runs a kernel of products, and a kernel
that torch.compile made has the name of its operator.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches.graph_join.sequences import GraphReplay, Nodes, Vocabulary
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.op_models import Family
from traceanalyzer.structure.sums import group, rows_by
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I64, UNKNOWN, Array, Bool, take_or

NO_NODE = -1
_MOST_EDITS = 400
"""Own choice: the time grows with the number of codes without a partner."""
REQUIRED = 0.95
"""Agreement below which nothing is joined (own choice: a layer of a model of twenty)."""
_COMPILED = "triton_"
_OF_PRODUCTS = frozenset({KernelClass.GEMM, KernelClass.MOE, KernelClass.TRITON, KernelClass.OTHER})
_FIRST_NAME = 256
"""Codes of names begin after those of kinds."""


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
        reach = history[edits]
        diagonal = at - other
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        start = reach[before]
        equal = at - (start if down else start + 1)
        pairs += [(at - step, other - step) for step in range(1, equal + 1)]
        at = start
        other = start - before
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
    free_nodes = np.flatnonzero(nodes)
    free_events = np.flatnonzero(events)
    gap_of_node = np.searchsorted(partner[matched], free_nodes)
    gap_of_event = np.searchsorted(matched, free_events)
    nodes_in = rows_by(gap_of_node)
    events_in = rows_by(gap_of_event)
    for gap in np.intersect1d(gap_of_node, gap_of_event).tolist():
        inside = free_nodes[nodes_in(gap)]
        run = free_events[events_in(gap)]
        size = min(len(inside), len(run))
        if len(inside) == len(run) or gap == len(matched):
            result[run[:size]] = inside[:size]
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
    others = np.flatnonzero(~kernels)
    run_others = np.flatnonzero(~run_kernels)
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
    key_of_pair = keys[first]
    counts = np.bincount(pairs, minlength=len(first))
    _, which = np.unique(key_of_pair, return_inverse=True)
    size = int(which.max()) + 1 if len(which) else 0
    most = np.zeros(size, np.int64)
    every = np.zeros(size, np.int64)
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


class Fit(msgspec.Struct, frozen=True, eq=False):
    """How well a captured graph matches a replay."""

    agreement: float
    """From 0 to 1: the least of all checks."""
    partner: I64
    """For each event of the replay its node, or -1."""

    @property
    def is_accepted(self) -> bool:
        """Whether the graph may have run."""
        return self.agreement >= REQUIRED


NO_FIT = Fit(0.0, np.zeros(0, np.int64))
"""The fit of a graph of a very different length, which is not compared."""


def fit(nodes: Nodes, replay: GraphReplay, names: Strings, vocabulary: Vocabulary) -> Fit:
    """Match a replay with a captured graph.

    Args:
        nodes: The nodes of the graph.
        replay: The replay.
        names: Names in the capture, for its operators.
        vocabulary: Names of kernels.
    """
    found = _fit(nodes, replay, names, vocabulary)
    if replay.by_node is None:
        return found
    other = _fit(
        nodes,
        GraphReplay(replay.kind[replay.by_node], replay.kernel[replay.by_node]),
        names,
        vocabulary,
    )
    if other.agreement <= found.agreement:
        return found
    partner = np.full(len(replay), NO_NODE, np.int64)
    partner[replay.by_node] = other.partner
    return Fit(other.agreement, partner)


def _fit(nodes: Nodes, replay: GraphReplay, names: Strings, vocabulary: Vocabulary) -> Fit:
    if 2 * (nodes.kernel != UNKNOWN).sum() > nodes.kernels and (replay.kernel != UNKNOWN).any():
        return _by_names(nodes, replay)
    return _by_order(nodes, replay, names, vocabulary)


def _by_names(nodes: Nodes, replay: GraphReplay) -> Fit:
    captured = np.where(nodes.kernel == UNKNOWN, nodes.graph.kind, nodes.kernel + _FIRST_NAME)
    run = np.where(replay.kernel == UNKNOWN, replay.kind, replay.kernel + _FIRST_NAME)
    unnamed = int((nodes.is_kernel & (nodes.kernel == UNKNOWN)).sum())
    copies = int((~nodes.is_kernel).sum()) + int((~replay.is_kernel).sum())
    least = max(len(captured), len(run)) - unnamed - copies
    equal = common(captured, run)
    if equal < REQUIRED * least - 1:  # too few equal codes for any order to match
        return Fit(equal / max(least, 1), np.full(len(run), NO_NODE, np.int64))
    partner = completed(in_order(captured, run), captured, run)
    _fill_gaps(partner, nodes, replay)
    return Fit(_matched(nodes, replay, partner), partner)


def _fill_gaps(partner: I64, nodes: Nodes, replay: GraphReplay) -> None:
    """Match a call without a kernel's name with the event after that of the previous call."""
    unnamed = nodes.is_kernel & (nodes.kernel == UNKNOWN)
    if not unnamed.any():
        return
    event_of = np.full(len(nodes), len(replay), np.int64)
    matched = np.flatnonzero(partner != NO_NODE)
    event_of[partner[matched]] = matched
    for node in np.flatnonzero(unnamed & (event_of == len(replay))).tolist():
        event = int(event_of[node - 1]) + 1 if node else 0
        if event < len(replay) and partner[event] == NO_NODE and replay.is_kernel[event]:
            partner[event], event_of[node] = node, event


def _by_order(nodes: Nodes, replay: GraphReplay, names: Strings, vocabulary: Vocabulary) -> Fit:
    partner = by_place(nodes.is_kernel, nodes.graph.kind, replay.is_kernel, replay.kind)
    if partner is not None:
        return _checked(nodes, replay, partner, names, vocabulary)
    if abs(nodes.kernels - replay.kernels) > max(1, (1 - REQUIRED) * len(nodes)):
        return NO_FIT
    ways = (_by_habit(nodes, replay, from_front=from_front) for from_front in (True, False))
    return max(
        (_checked(nodes, replay, way, names, vocabulary) for way in ways),
        key=lambda found: found.agreement,
    )


def _checked(nodes: Nodes, replay: GraphReplay, partner: I64, names: Strings, vocabulary: Vocabulary) -> Fit:
    """The agreement of a matching by order: the least of all checks."""
    of_kernel = np.flatnonzero((partner != NO_NODE) & replay.is_kernel & (replay.kernel != UNKNOWN))
    node = partner[of_kernel]
    keys = nodes.key[node]
    kernels = replay.kernel[of_kernel]
    has_key = keys != UNKNOWN
    habit = agreement(keys[has_key], kernels[has_key])
    if habit is None and nodes.kernels != replay.kernels:
        return Fit(0.0, partner)  # unknown where nodes are missing
    shares = [_matched(nodes, replay, partner), habit]
    shares += _expected(nodes.caller[node], kernels, names, vocabulary)
    return Fit(min(share for share in shares if share is not None), partner)


def _by_habit(nodes: Nodes, replay: GraphReplay, *, from_front: bool) -> I64:
    """Match by the kernels that each key runs most often, if the numbers of kernels differ.

    Before the first missing node the order from the front is right, after the last one the order from the back. If both
    have equally many matches for a key, one of them decides.
    """
    node = np.flatnonzero(nodes.is_kernel)
    event = np.flatnonzero(replay.is_kernel)
    key = nodes.key[node]
    kernel = replay.kernel[event]
    usual = _usual_kernels(key, kernel, int(nodes.key.max(initial=-1)) + 1, from_front=from_front)
    guess = take_or(usual, key, NO_NODE)
    guessed = in_order(guess, np.where(kernel == UNKNOWN, NO_NODE - 1, kernel))
    is_open = (guessed == NO_NODE) & ~np.isin(kernel, usual)
    node_of = between(guessed, guess == NO_NODE, is_open)
    partner = np.full(len(replay), NO_NODE, np.int64)
    partner[event] = take_or(node, node_of, NO_NODE)
    return partner


def _usual_kernels(key: I64, kernel: I64, count: int, *, from_front: bool) -> I64:
    """The kernel that each key 0..count-1 runs most often, by the orders from both ends; -1 for none.

    Args:
        key: The key of each captured kernel.
        kernel: The name of each kernel of the replay.
        count: Number of keys.
        from_front: Whether the order from the front counts twice, else that from the back.
    """
    size = min(len(key), len(kernel))
    front = slice(size)
    back = slice(-size, None)
    sides = (front, back, front if from_front else back)
    keys = np.concatenate([key[side] for side in sides])
    kernels = np.concatenate([kernel[side] for side in sides])
    known = (keys != UNKNOWN) & (kernels != UNKNOWN)
    usual = most_frequent(keys[known], kernels[known], count)
    occurs = np.bincount(key[key != UNKNOWN], minlength=count)
    usual[occurs < 2] = NO_NODE  # a key that occurs once has no most frequent kernel
    return usual


def _matched(nodes: Nodes, replay: GraphReplay, partner: I64) -> float:
    """The share of kernels that have a partner, on the side that has more; one more at the end does not count."""
    run = replay.is_kernel if replay.is_kernel.any() else np.ones(len(replay), np.bool_)
    captured = nodes.is_kernel if nodes.is_kernel.any() else np.ones(len(nodes), np.bool_)
    has_partner = np.zeros(len(nodes), np.bool_)
    has_partner[partner[partner != NO_NODE]] = True
    sizes = (_without_last(captured, has_partner), _without_last(run, partner != NO_NODE))
    return min(1.0, float((run & (partner != NO_NODE)).sum() / max(*sizes, 1)))


def _without_last(counted: Bool, matched: Bool) -> int:
    """Number of entries, without a last one that has no partner: a capture may end with an extra call."""
    return int(counted.sum()) - int(bool(len(matched)) and bool(counted[-1]) and not matched[-1])


def _expected(caller: I64, kernels: I64, names: Strings, vocabulary: Vocabulary) -> list[float]:
    """Checks of kernels against the operators that should have launched them, as shares of matching ones."""
    texts = vocabulary.texts()
    checks = []
    is_known = caller >= 0
    compiled = names.where(lambda name: name.startswith(_COMPILED))[np.maximum(caller, 0)] & is_known
    compiled[compiled] = [kernel_class(texts[kernel]) is not KernelClass.OTHER for kernel in kernels[compiled].tolist()]
    if compiled.any():
        pairs = zip(caller[compiled].tolist(), kernels[compiled].tolist(), strict=True)
        checks.append(float(np.mean([names[name] == texts[kernel] for name, kernel in pairs])))
    products = names.where(_is_product)[np.maximum(caller, 0)] & is_known
    if products.any():
        starts = products & np.append(True, caller[1:] != caller[:-1])
        product = np.cumsum(starts)[products]
        fits = np.array([kernel_class(texts[kernel]) in _OF_PRODUCTS for kernel in kernels[products].tolist()])
        checks.append(float(len(np.unique(product[fits])) / len(np.unique(product))))
    return checks


def _is_product(name: str) -> bool:
    return op_models.family(name) is Family.GEMM
