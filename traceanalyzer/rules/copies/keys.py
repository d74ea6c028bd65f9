"""Detects heads of keys and values that a program repeats before attention: keys-repeated."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum

import msgspec

from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.places import of_operators
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, page
from traceanalyzer.structure.events import ITS_OWN

_KEYS = page("keys-repeated")

_COPY = "aten::copy_"
_LEAST = 0.5
"""Least part of the time that is saved with a flash kernel (own choice, explained on the page)."""

_EXPAND = "aten::expand"
_ATTENTION = "aten::scaled_dot_product_attention"
_FLASH = "aten::_scaled_dot_product_flash_attention"
_PRODUCTS = ("aten::bmm", "aten::baddbmm")
_AXES = (2, 3)
"""Position of the axis of repeats: [batch, heads, repeats, sequence, size] or [batch, sequence, heads, repeats,
size]."""
_ROUNDED = 1.01
"""Most that a printed time may be of a sum that it is a part of (own choice, because tables round)."""


def _keys(facts: Facts, limits: Limits) -> Drafts:
    repeats = repeated_heads(facts)
    rows = [row for row in facts.shaped if row.name == _COPY and row.shapes in repeats and row.device_self_ns]
    rows.sort(key=lambda row: (-row.device_self_ns, row.shapes or ""))
    work = EventTimes.on_device(facts, ((row.events, row.device_self_ns) for row in rows))
    if work.share <= limits["gpu_share"]:
        return
    largest = repeats[rows[0].shapes or ""]
    where = of_operators(facts, rows, lambda row: facts.on_device(row.device_self_ns))
    least, basis = 0.0, _KEYS.text("basis-unsure")()
    if all(repeats[row.shapes or ""].by_flash for row in rows):
        least, basis = _LEAST, _KEYS.text("basis")(least=_LEAST)
    params = {
        "copies": max(1, round(facts.per_step(fsum(row.calls for row in rows)))),
        "heads": largest.heads,
        "queries": largest.query_heads,
        **work.figures(),
    }
    evidence = _KEYS.evidence(limits, "gpu_share", work.share, where)
    yield Draft((evidence,), work.shorter((least, 1.0), basis, host=ITS_OWN), params)


class RepeatedHeads(msgspec.Struct, frozen=True):
    """Copies that repeat the heads of keys or values before attention."""

    heads: int
    """Heads of keys and values before the copy."""
    query_heads: int
    """Heads after it, as many as the queries have."""
    by_flash: bool
    """Whether torch's operator for attention takes the copies to its flash kernel."""


def repeated_heads(facts: Facts) -> Mapping[str, RepeatedHeads]:
    """Find copies of tensors with an expanded axis of heads, whose result attention takes.

    Returns:
        Shapes of `aten::copy_` as recorded, to what is repeated; empty where shapes were not recorded.
    """
    rows = if_known(lambda: facts.shaped)
    attention = _Attention.of(rows)
    copies = ((str(row.shapes), attention.repeated(row.inputs.tensors[0])) for row in rows if _copies_all(row))
    return {shapes: heads for shapes, heads in copies if heads is not None}


def copies_of_others(facts: Facts, most_ns: int) -> list[OperatorFact]:
    """Other copies by shape, those with most time first; no row has more time than all copies together."""
    heads = repeated_heads(facts)
    copies = [row for row in if_known(lambda: facts.shaped) if row.name == _COPY and row.shapes not in heads]
    rows = [row for row in copies if 0 < row.device_self_ns <= _ROUNDED * most_ns]
    return sorted(rows, key=lambda row: (-row.device_self_ns, row.shapes or ""))


def repeated_ns(facts: Facts) -> int:
    """Device time of copies that repeat heads in ns, over all steps."""
    shapes = repeated_heads(facts)
    return (
        sum(row.device_self_ns for row in facts.shaped if row.name == _COPY and row.shapes in shapes) if shapes else 0
    )


def _copies_all(row: OperatorFact) -> bool:
    """Whether it copies a tensor of five axes to one of the same shape and, as far as known, type."""
    tensors = row.inputs.tensors
    if row.name != _COPY or not tensors or len(tensors[0]) != 5 or tensors[1:2] != (tensors[0],):
        return False
    types = row.inputs.types or ()
    return len(types) < 2 or types[0] == types[1]


class _Attention(msgspec.Struct, frozen=True):
    """Shapes of the tensors around attention."""

    expanded: frozenset[Shape]
    """Results of `aten::expand` with five axes."""
    keys: frozenset[Shape]
    """Keys of as many heads as the queries."""
    grouped: frozenset[Shape]
    """Keys of fewer heads, which torch's operator repeats itself."""
    flash: frozenset[Shape]
    """Keys that a flash kernel takes."""
    factors: frozenset[Shape]
    """Second factors of batched products, as attention of separate operators has them."""

    @classmethod
    def of(cls, rows: Iterable[OperatorFact]) -> _Attention:
        """The shapes in the calls of a run."""
        calls = _tensors_by_operator(rows)
        taken = [tensors for tensors in calls[_ATTENTION] if len(tensors) >= 3]
        products = (tensors[-1] for name in _PRODUCTS for tensors in calls[name])
        return cls(
            expanded=frozenset(tensors[0] for tensors in calls[_EXPAND] if len(tensors[0]) == 5),
            keys=frozenset(tensors[1] for tensors in taken if not _is_grouped(tensors)),
            grouped=frozenset(tensors[1] for tensors in taken if _is_grouped(tensors)),
            flash=frozenset(tensors[1] for tensors in calls[_FLASH] if len(tensors) >= 3),
            factors=frozenset(shape for shape in products if len(shape) == 3),
        )

    def repeated(self, shape: Shape) -> RepeatedHeads | None:
        """What a copy with five axes repeats, if attention takes its result; None if it repeats no heads."""
        found = None
        for axis in _AXES:
            before = _before(shape, axis)
            if shape[axis] >= 2 and before in self.expanded and _merged(before, axis) not in self.grouped:
                merged = _merged(shape, axis)
                if self._takes(merged):
                    found = RepeatedHeads(shape[axis - 1], merged[1], merged in self.flash)
        return found

    def _takes(self, merged: Shape) -> bool:
        """Whether some attention has such keys or values, in one operator or in batched products."""
        batch, heads, sequence, size = merged
        products = {(batch * heads, sequence, size), (batch * heads, size, sequence)}
        return merged in self.keys or bool(products & self.factors)


def _tensors_by_operator(rows: Iterable[OperatorFact]) -> Mapping[str, list[tuple[Shape, ...]]]:
    """Shapes of the tensors of each list of inputs, by operator."""
    calls: defaultdict[str, list[tuple[Shape, ...]]] = defaultdict(list)
    for row in rows:
        if row.inputs.tensors:
            calls[row.name].append(row.inputs.tensors)
    return calls


def _is_grouped(tensors: Sequence[Shape]) -> bool:
    """Whether attention takes fewer heads of keys than of queries itself."""
    query, key = tensors[:2]
    return len(query) == len(key) == 4 and query[1] != key[1]


def _before(shape: Shape, axis: int) -> Shape:
    """The shape before the axis was expanded."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _merged(shape: Shape, axis: int) -> Shape:
    """The shape with the repeats as separate heads, as attention takes it: [batch, heads, sequence, size]."""
    found = (*shape[: axis - 1], math.prod(shape[axis - 1 : axis + 1]), *shape[axis + 1 :])
    return found if axis == 2 else (found[0], found[2], found[1], found[3])


RULES = (_KEYS.rule(trace=_keys, table=_keys),)
