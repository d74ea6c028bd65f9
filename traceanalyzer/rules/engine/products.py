"""Matrix products for several rules: their sides, their work, and how fast memory is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.op_models import Work
from traceanalyzer.knowledge.op_shapes import Shape, implied, parse
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact

FP32_BYTES = 4
"""Bytes of an element of fp32, the usual type; tables print no types."""
_OUT_OF_CACHE = 128 * 2**20
"""Bytes of a call that fit into no GPU's cache; own choice: the largest L2 caches have 50 to 126 MB."""
_FRACTION = 0.5
"""Own choice: share of the best known bandwidth that any operator which only moves data should reach."""

_AXES = {"mm": 2, "addmm": 2, "_addmm_activation": 2, "_scaled_mm": 2, "_int_mm": 2, "bmm": 3, "baddbmm": 3}
"""Axes of the operands of products, without `aten::`."""
_AFTER_BIAS = frozenset({"addmm", "baddbmm", "_addmm_activation"})
"""Products whose operands come after a tensor that is added."""


class Sides(msgspec.Struct, frozen=True):
    """A product of an `m` by `k` and a `k` by `n` matrix, `batch` times."""

    batch: int
    m: int
    n: int
    k: int


def sides(name: str, input_shapes: str | None) -> Sides | None:
    """The sides of a product; None for other operators, or if the shapes do not fit."""
    return sides_of(name, parse(input_shapes) or ()) if name.removeprefix("aten::") in _AXES else None


def sides_of(name: str, shapes: Sequence[Shape]) -> Sides | None:
    """The sides of a product from the shapes of its inputs; None as in `sides`."""
    base = name.removeprefix("aten::")
    axes = _AXES.get(base)
    operands = shapes[1:3] if base in _AFTER_BIAS else shapes[:2]
    if axes is None or len(operands) < 2 or any(len(shape) != axes for shape in operands):
        return None
    a, b = operands
    if a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    return Sides(a[0] if axes == 3 else 1, a[-2], b[-1], a[-1])


def _work(operator: OperatorFact) -> Work | None:
    """Operations and bytes of one call; None without a model of the operator."""
    call = op_models.parse(operator.name, operator.shapes or "", operator.types or "")
    return op_models.work(call) if call else None


def moved(operator: OperatorFact) -> int | None:
    """Bytes that one call reads and writes, each tensor once; fp32 is assumed if the types are unknown."""
    modelled = _work(operator)
    if modelled is not None and modelled.bytes is not None:
        return modelled.bytes
    shapes = parse(operator.shapes)
    elements = implied(operator.name, shapes) if shapes else None
    return FP32_BYTES * elements.moved if elements else None


def intensities(facts: Facts) -> dict[tuple[str, str], float]:
    """Operations per byte in fp32 by operator and shapes, for operators with a model."""
    known = {key: row.flops_per_byte for key, row in roofline_rows(facts).items() if row.flops_per_byte is not None}
    for operator in _shaped(facts):
        key = operator.name, operator.shapes or ""
        if key not in known:
            done, size = _work(operator), moved(operator)
            if done is not None and size:
                known[key] = done.flops / size
    return known


def roofline_rows(facts: Facts) -> dict[tuple[str, str], RooflineRow]:
    """Measured rates of a trace by operator and shapes; empty for a table."""
    roofline = facts.find("roofline", Roofline)
    return {(row.name, row.input_shapes): row for row in (roofline.rows if roofline else ())}


def memory_bandwidth(facts: Facts) -> float | None:
    """Bandwidth of the memory by the data sheet in GB/s; None where it is not known, and for a table."""
    roofline = facts.find("roofline", Roofline)
    return roofline.roof.bandwidth_gb_per_s if roofline and roofline.roof else None


def bandwidths(facts: Facts) -> tuple[float, float] | None:
    """Least and greatest bytes per ns that an operator which only moves data should reach; None if unknown.

    The greatest is the data sheet's bandwidth, or the best that an operator of the run reached with tensors too large
    for any cache. The least is what was reached, or half of the only figure that is known.
    """
    peak = memory_bandwidth(facts) or (facts.gpu.bandwidth if facts.gpu else None)
    reached = max((rate for operator in _shaped(facts) if (rate := _rate(operator)) is not None), default=None)
    if peak is None:
        return None if reached is None else (_FRACTION * reached, reached)
    return (max(reached, _FRACTION * peak) if reached else _FRACTION * peak), max(peak, reached or 0.0)


def _rate(operator: OperatorFact) -> float | None:
    size = moved(operator)
    if size is None or size < _OUT_OF_CACHE or not operator.device_self_ns or not operator.calls:
        return None
    return size * operator.calls / operator.device_self_ns


def _shaped(facts: Facts) -> tuple[OperatorFact, ...]:
    try:
        return facts.shaped
    except Missing:
        return ()
