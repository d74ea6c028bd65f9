"""Which optimizers have a fused form, and how much time it saves on a CPU."""

from __future__ import annotations

import re

from traceanalyzer.analyzers.optimizer import Optimizer
from traceanalyzer.rules.engine.change import Interval
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.program import has_torch

_Saved = tuple[Interval | None, Interval | None, Interval | None]

FEWEST_CALLS = 100
"""Launches, or calls in a program without a GPU, of one update from which on it is a loop over parameters (own choice:
optimizers on lists launch some tens for any model)."""
CLASS = re.compile(r"#(\w+)\.step$")
"""Finds the class of an optimizer in the name of its range."""
_SPARSE = re.compile("sparse|coalesce", re.IGNORECASE)

_SINCE = (2, 4)
"""torch whose fused optimizers compute on a CPU (release notes of 2.4)."""
_CALL_NS = 20_000
"""Own choice: longer calls move more memory than the cache of a core can hold."""
_LONG_CALL_NS = 200_000
"""Own choice: such calls move more memory than the caches of a processor can hold."""
_SAVED: dict[str, _Saved] = {
    "Adam": ((0.7, 1.0), (0.5, 0.8), (0.7, 0.92)),
    "AdamW": ((0.7, 1.0), (0.5, 0.8), (0.7, 0.92)),
    "Adagrad": ((0.55, 0.85), (0.4, 0.7), (0.35, 0.85)),
    "SGD": ((0.6, 0.9), (0.2, 0.4), (0.25, 0.5)),
}
"""Least and most of the time that fused=True saves on a CPU, with short, long and very long calls (see the page)."""
_SAVED_WITHOUT_MOMENTUM: _Saved = ((0.35, 0.6), None, None)
"""The same for SGD with one operation for each parameter."""
_MOMENTUM = "aten::mul_"


def is_sparse(row: Optimizer) -> bool:
    """Whether its gradients are sparse; no fused form supports them."""
    return any(is_sparse_name(name) for name in (row.name, *(entry.name for entry in row.operators)))


def is_sparse_name(name: str) -> bool:
    """Whether the name of an optimizer or of an operator shows that gradients are sparse."""
    return _SPARSE.search(name) is not None


def saved_on_cpu(facts: Facts, row: Optimizer, fewest: float = FEWEST_CALLS) -> Interval | None:
    """Least and most of the time of the updates that the fused form saves; None if there is none, or no loop.

    Args:
        facts: Of a program without a GPU.
        row: The optimizer.
        fewest: In-place operations of an update from which on short ones count.
    """
    named = CLASS.search(row.name)
    if named is None or row.kind != "step" or row.list_operators or not row.in_place or is_sparse(row):
        return None
    if row.closures or not has_torch(facts, _SINCE):
        return None
    plain = named[1] == "SGD" and all(entry.name != _MOMENTUM for entry in row.operators)
    short, long, longest = _SAVED_WITHOUT_MOMENTUM if plain else _SAVED.get(named[1], (None, None, None))
    if row.in_place_ns > _LONG_CALL_NS * row.in_place:
        return longest
    if row.in_place < fewest * row.calls:
        return None
    return long if row.host_ns > _CALL_NS * row.in_place else short
