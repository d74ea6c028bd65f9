"""Keys and values that were repeated for each query head by a copy, for several rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.knowledge.op_shapes import Shape, parse
from traceanalyzer.rules.engine.facts import Facts, Missing

COPY = "aten::copy_"
_EXPAND = "aten::expand"
_ATTENTION = "aten::scaled_dot_product_attention"
_FLASH = "aten::_scaled_dot_product_flash_attention"
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
_AXES = (2, 3)
"""Position of the axis of repeats: [batch, heads, repeats, sequence, size] or [batch, sequence, heads, repeats,
size]."""


@dataclass(frozen=True)
class RepeatedHeads:
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
    try:
        rows = facts.shaped
    except Missing:
        return {}
    tensors = [(row, found) for row in rows if (found := [s for s in parse(row.shapes) or [] if s])]
    expanded = {found[0] for row, found in tensors if row.name == _EXPAND and len(found[0]) == 5}
    taken = [found for row, found in tensors if row.name == _ATTENTION and len(found) >= 3]
    flash = {found[1] for row, found in tensors if row.name == _FLASH and len(found) >= 3}
    grouped = {found[1] for found in taken if _is_grouped(found)}
    keys = {found[1] for found in taken if not _is_grouped(found)}
    factors = {found[-1] for row, found in tensors if row.name in _PRODUCTS and len(found[-1]) == 3}
    repeats: dict[str, RepeatedHeads] = {}
    for row, found in tensors if expanded else ():
        shape = found[0]
        if row.name != COPY or len(shape) != 5 or found[1:2] != [shape] or not _keeps_type(row.types):
            continue
        for axis in _AXES:
            before, merged = _before(shape, axis), _merged(shape, axis)
            if shape[axis] < 2 or before not in expanded or _merged(before, axis) in grouped:
                continue
            batch, heads, sequence, size = merged
            products = {(batch * heads, sequence, size), (batch * heads, size, sequence)}
            if merged in keys or products & factors:
                repeats[str(row.shapes)] = RepeatedHeads(shape[axis - 1], heads, merged in flash)
    return repeats


def repeated_ns(facts: Facts) -> int:
    """Device time of these copies in ns, over all steps."""
    shapes = repeated_heads(facts)
    return sum(row.device_self_ns for row in facts.shaped if row.name == COPY and row.shapes in shapes) if shapes else 0


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


def _keeps_type(types: str | None) -> bool:
    """Whether a copy has the type of its source, as far as known."""
    kinds = (types or "").strip("[]").split(",")[:2]
    return len(kinds) < 2 or kinds[0].strip() == kinds[1].strip()
