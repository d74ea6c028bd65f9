"""The work of operators, and how fast memory is, for several rules about matrix products."""

from __future__ import annotations

from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.op_models import Work
from traceanalyzer.knowledge.op_shapes import implied, parse
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact

FP32_BYTES = 4
"""Bytes of an element of fp32, the usual type; tables print no types."""
_OUT_OF_CACHE = 128 * 2**20
"""Bytes of a call that fit into no GPU's cache; own choice: the largest L2 caches have 50 to 126 MB."""
_FRACTION = 0.5
"""Own choice: share of the best known bandwidth that any operator which only moves data should reach."""


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
