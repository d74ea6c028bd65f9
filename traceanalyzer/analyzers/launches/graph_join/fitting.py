"""How well do the events of a replay match a captured graph?

Kernels decide: copies and fills may be missing on one side. If calls name the kernels that they launch (HIP), names
must agree. If they do not (CUDA), kernels are matched by their order, and checked with facts of the capture: the same
operator with the same inputs runs the same kernels in every layer, a product runs a kernel of products, and a kernel
that torch.compile made has the name of its operator.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches.graph_join.alignment import (
    NO_NODE,
    agreement,
    between,
    by_place,
    common,
    completed,
    in_order,
    most_frequent,
)
from traceanalyzer.analyzers.launches.graph_join.sequences import GraphReplay, Nodes, Vocabulary
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.op_models import Family
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, entries

REQUIRED = 0.95
"""Agreement below which nothing is joined (own choice: a layer of a model of twenty)."""
_COMPILED = "triton_"
_OF_PRODUCTS = frozenset({KernelClass.GEMM, KernelClass.MOE, KernelClass.TRITON, KernelClass.OTHER})
_FIRST_NAME = 256
"""Codes of names begin after those of kinds."""


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
    other = _fit(nodes, GraphReplay(replay.kind[replay.by_node], replay.kernel[replay.by_node]), names, vocabulary)
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
    here = np.where(nodes.kernel == UNKNOWN, nodes.graph.kind, nodes.kernel + _FIRST_NAME)
    there = np.where(replay.kernel == UNKNOWN, replay.kind, replay.kernel + _FIRST_NAME)
    unnamed = int((nodes.is_kernel & (nodes.kernel == UNKNOWN)).sum())
    least = max(len(here), len(there)) - unnamed - int((~nodes.is_kernel).sum()) - int((~replay.is_kernel).sum())
    if common(here, there) < REQUIRED * least - 1:  # too few equal codes for any order to match
        return Fit(common(here, there) / max(least, 1), np.full(len(there), NO_NODE, np.int64))
    partner = completed(in_order(here, there), here, there)
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
    return max((_checked(nodes, replay, way, names, vocabulary) for way in ways), key=lambda found: found.agreement)


def _checked(nodes: Nodes, replay: GraphReplay, partner: I64, names: Strings, vocabulary: Vocabulary) -> Fit:
    """The agreement of a matching by order: the least of all checks."""
    of_kernel = np.flatnonzero((partner != NO_NODE) & replay.is_kernel & (replay.kernel != UNKNOWN))
    keys, kernels = nodes.key[partner[of_kernel]], replay.kernel[of_kernel]
    told = keys != UNKNOWN
    habit = agreement(keys[told], kernels[told])
    if habit is None and nodes.kernels != replay.kernels:
        return Fit(0.0, partner)  # unknown where nodes are missing
    shares = [_matched(nodes, replay, partner), habit]
    shares += _expected(nodes.caller[partner[of_kernel]], kernels, names, vocabulary)
    return Fit(min(share for share in shares if share is not None), partner)


def _by_habit(nodes: Nodes, replay: GraphReplay, *, from_front: bool) -> I64:
    """Match by the kernels that each key runs most often, if the numbers of kernels differ.

    Before the first missing node the order from the front is right, after the last one the order from the back. If both
    have equally many matches for a key, one of them decides.
    """
    here, there = np.flatnonzero(nodes.is_kernel), np.flatnonzero(replay.is_kernel)
    size = min(len(here), len(there))
    key, kernel = nodes.key[here], replay.kernel[there]
    front, back = slice(size), slice(-size, None)
    sides = (front, back, front if from_front else back)
    keys = np.concatenate([key[side] for side in sides])
    kernels = np.concatenate([kernel[side] for side in sides])
    known = (keys != UNKNOWN) & (kernels != UNKNOWN)
    size = int(nodes.key.max(initial=-1)) + 1
    usual = most_frequent(keys[known], kernels[known], size)
    usual[np.bincount(key[key != UNKNOWN], minlength=size) < 2] = (
        NO_NODE  # a key that occurs once has no most frequent kernel
    )
    guess = entries(usual, key, NO_NODE)
    guessed = in_order(guess, np.where(kernel == UNKNOWN, NO_NODE - 1, kernel))
    found = between(guessed, guess == NO_NODE, (guessed == NO_NODE) & ~np.isin(kernel, usual))
    partner = np.full(len(replay), NO_NODE, np.int64)
    partner[there] = entries(here, found, NO_NODE)
    return partner


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
    texts, checks = vocabulary.texts(), []
    compiled = names.where(lambda name: name.startswith(_COMPILED))[np.maximum(caller, 0)] & (caller >= 0)
    compiled[compiled] = [kernel_class(texts[kernel]) is not KernelClass.OTHER for kernel in kernels[compiled].tolist()]
    if compiled.any():
        pairs = zip(caller[compiled].tolist(), kernels[compiled].tolist(), strict=True)
        checks.append(float(np.mean([names[name] == texts[kernel] for name, kernel in pairs])))
    products = names.where(_is_product)[np.maximum(caller, 0)] & (caller >= 0)
    if products.any():
        starts = products & np.append(True, caller[1:] != caller[:-1])
        group = np.cumsum(starts)[products]
        fits = np.array([kernel_class(texts[kernel]) in _OF_PRODUCTS for kernel in kernels[products].tolist()])
        checks.append(float(len(np.unique(group[fits])) / len(np.unique(group))))
    return checks


def _is_product(name: str) -> bool:
    return op_models.family(name) is Family.GEMM
