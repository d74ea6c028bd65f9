"""Detects numbers that are computed in double precision: fp64-on-gpu."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape
from traceanalyzer.analyzers.operators import operators_at
from traceanalyzer.knowledge import kernel_names, op_models
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, EventSet, Facts, Limits, page
from traceanalyzer.rules.kernels import precision

_FP64 = page("fp64-on-gpu")

_FULL_RATE = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities with fp64 at half the rate of fp32 (CUDA C++ Programming Guide, arithmetic instructions)."""
_MOVES = 2.0
_ON_PURPOSE = 0.5
"""Share of the GPU's time from which on doubles are meant, on a GPU that is built for them (own choice: most of it)."""
_MULTIPLIES = 16.0
"""Own choice: a bound below the 32 to 64 of the data sheets, because fp32 products are soon bound by memory."""
_ON_CPU = 0.55, 0.85
"""Least and most part of the time of the work that goes away on a CPU (measured in the lab, explained on the page)."""
_CALL_NS = 2_000
"""Time of a call that does not depend on the type (own choice: operators on a few numbers take 1 to 3 us)."""
_NARROWER = frozenset({"float", "c10::Half", "c10::BFloat16"})


class _Double(msgspec.Struct, frozen=True):
    """Work in fp64 on a GPU: an operator with some shapes, or a kernel."""

    events: EventSet
    time_ns: int
    multiplies: bool
    """Whether it is a product of matrices or a convolution."""
    place: CodePlace

    @property
    def saved_ns(self) -> float:
        """Time that single precision saves at most."""
        return (1 - 1 / (_MULTIPLIES if self.multiplies else _MOVES)) * self.time_ns


def _fp64(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    if processor.is_cpu:
        yield from _fp64_on_cpu(processor, limits)
    elif facts.kernels:
        yield from _fp64_on_gpu(facts, limits)


def _fp64_on_gpu(facts: Facts, limits: Limits) -> Drafts:
    """One finding about all kernels in double precision, unless they are meant to be."""
    is_other = precision.is_other_vendor(facts)
    generation = None if is_other else precision.capability(facts)
    is_full_rate = is_other or generation in _FULL_RATE
    doubles = max(_doubles_by_shape(facts), _doubles_by_name(facts), key=_time_ns)
    work = EventTimes.on_device(facts, ((row.events, row.time_ns) for row in doubles))
    are_meant = is_full_rate and (work.share >= _ON_PURPOSE or any(row.multiplies for row in doubles))
    if are_meant or work.share <= limits["gpu_share"]:
        return
    saved = EventTimes.on_device(facts, ((row.events, row.saved_ns) for row in doubles))
    places = tuple(row.place for row in doubles)
    by_age = None if generation else _FP64.text("summary-unknown")
    yield Draft(
        (_FP64.evidence(limits, "gpu_share", work.share, places),),
        saved.removed(((1 - 1 / _MOVES) * work.total_ns, saved.total_ns), _FP64.text("basis")()),
        work.figures(),
        confidence="C" if generation is None and not is_full_rate else None,
        summary=_FP64.text("summary-full-rate") if is_full_rate else by_age,
    )


def _time_ns(doubles: Sequence[_Double]) -> int:
    return sum(row.time_ns for row in doubles)


def _fp64_on_cpu(processor: Processor, limits: Limits) -> Drafts:
    """Without a GPU the operators themselves take the time."""
    rows = [row for row in processor.facts.shaped if _computes_doubles(row)]
    rows.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
    whole = EventTimes.of(processor, ((row.events, processor.self_ns(row)) for row in rows))
    if whole.share <= processor.limit(limits):
        return
    beyond = ((row.events, max(0, processor.self_ns(row) - _CALL_NS * row.calls)) for row in rows)
    work = EventTimes.of(processor, beyond)
    least, most = _ON_CPU
    basis = _FP64.text("basis-cpu")(least=least, most=most)
    at = operators_at(rows=tuple((row.name, row.shapes, row.types) for row in rows))
    key, subject = processor.limit_key, _FP64.text("subject-cpu")()
    yield Draft(
        (_FP64.evidence(limits, key, whole.share, processor.places(rows), subject=subject),),
        work.shorter(_ON_CPU, basis, at=at),
        work.figures(),
        title=_FP64.text("title-cpu"),
        summary=_FP64.text("summary-cpu"),
    )


def _computes_doubles(row: OperatorFact) -> bool:
    """Whether an operator computes on doubles: one without a model may take the most time, but views do nothing."""
    call = op_models.call_of(row.name, row.inputs) if "double" in (row.inputs.types or ()) else None
    return call is not None and precision.computes(row.name) and _has_doubles_only(call)


def _has_doubles_only(call: op_models.Call) -> bool:
    """Whether all floating-point tensors with axes are doubles; Python numbers beside them do not matter."""
    types = {tensor.dtype for tensor in call.tensors if tensor.shape}
    return "double" in types and not types & _NARROWER


def _doubles_by_shape(facts: Facts) -> list[_Double]:
    """Kernels of operators whose tensors are doubles; none if types were not recorded."""
    kernels = facts.find("kernels_by_shape", KernelsByShape)
    doubles = []
    for row in kernels.rows if kernels else ():
        call = op_models.call_of(row.operator, row.inputs) if "double" in (row.inputs.types or ()) else None
        if call is not None and _has_doubles_only(call):
            place = CodePlace("operator", row.operator, row.input_shapes or None, facts.at_place(row.total_ns), "ns")
            multiplies = kernel_names.is_fp64_product(row.kernel) or row.kind in precision.PRODUCTS
            doubles.append(_Double(row.events, row.total_ns, multiplies, place))
    return doubles


def _doubles_by_name(facts: Facts) -> list[_Double]:
    rows = [row for row in facts.kernels if kernel_names.is_fp64(row.name)]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    products = [kernel_names.is_fp64_product(row.name) or row.kind in precision.PRODUCTS for row in rows]
    named = zip(rows, products, facts.kernel_places(rows), strict=True)
    return [_Double(row.events, row.total_ns, multiplies, place) for row, multiplies, place in named]


RULES = (_FP64.rule(trace=_fp64, table=_fp64),)
