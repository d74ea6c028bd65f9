"""Detects numbers that are computed in double precision: fp64-on-gpu."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape
from traceanalyzer.analyzers.operators import operators_at
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_names import is_fp64, is_fp64_product
from traceanalyzer.knowledge.op_models import Call
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, summed
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, OfEvents, page
from traceanalyzer.rules.kernels.precision import PRODUCTS, capability
from traceanalyzer.structure.events import EventSet

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

    kernel: str
    events: EventSet
    place: CodePlace
    time_ns: int


def _fp64(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    if processor.is_cpu:
        yield from _fp64_on_cpu(processor, limits)
        return
    if not facts.kernels:
        return
    generation = None if _is_other_vendor(facts) else capability(facts)
    is_full_rate = _is_other_vendor(facts) or generation in _FULL_RATE
    doubles = max(_doubles_by_shape(facts), _doubles_by_name(facts), key=_time_ns)
    time = _time_ns(doubles)
    if is_full_rate and _are_meant(facts, doubles):
        return
    share = facts.gpu_share(time)
    if share <= limits["gpu_share"]:
        return
    parts = [(1 - 1 / (_MULTIPLIES if _multiplies(row.kernel) else _MOVES)) * row.time_ns for row in doubles]
    claims = summed((row.events, facts.on_device(part)) for row, part in zip(doubles, parts, strict=True))
    saved = facts.on_device((1 - 1 / _MOVES) * time), facts.on_device(fsum(parts))
    where = tuple(entry.place for entry in doubles)
    yield Draft(
        (Evidence(_FP64.text("subject")(), share, limits["gpu_share"], "share", where),),
        DeviceWork(saved, _FP64.text("basis")(), claims=claims),
        {"time": OfEvents(facts.on_device(time)), "share": share},
        confidence="C" if generation is None and not is_full_rate else None,
        summary=_summary(generation, is_full_rate=is_full_rate),
    )


def _summary(generation: tuple[int, int] | None, *, is_full_rate: bool) -> Text | None:
    if is_full_rate:
        return _FP64.text("summary-full-rate")
    return _FP64.text("summary-unknown") if generation is None else None


def _are_meant(facts: Facts, doubles: Sequence[_Double]) -> bool:
    """Whether a program computes in fp64 on purpose: products, or most of its work."""
    return any(_multiplies(row.kernel) for row in doubles) or facts.gpu_share(_time_ns(doubles)) >= _ON_PURPOSE


def _time_ns(doubles: Sequence[_Double]) -> int:
    return sum(entry.time_ns for entry in doubles)


def _fp64_on_cpu(processor: Processor, limits: Limits) -> Drafts:
    """Without a GPU the operators themselves take the time."""
    rows = [row for row in processor.facts.shaped if _computes_doubles(row)]
    rows.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
    time = sum(map(processor.self_ns, rows))
    share = processor.share(time)
    if share <= processor.limit(limits):
        return
    work = {row.events: processor.per_step(max(0, processor.self_ns(row) - _CALL_NS * row.calls)) for row in rows}
    least, most = _ON_CPU
    total = fsum(work.values())
    claims = {claim: most * ns for claim, ns in work.items()}
    basis = _FP64.text("basis-cpu")(least=least, most=most)
    at = operators_at(rows=tuple((row.name, row.shapes, row.types) for row in rows))
    yield Draft(
        (Evidence(_FP64.text("subject-cpu")(), share, processor.limit(limits), "share", processor.places(rows)),),
        HostTime((least * total, most * total), basis, claims=claims, at=at),
        {"time": OfEvents(total), "share": OfEvents(total, is_share=True)},
        title=_FP64.text("title-cpu"),
        summary=_FP64.text("summary-cpu"),
    )


def _computes_doubles(row: OperatorFact) -> bool:
    """Whether an operator reads or writes doubles; its work must be known, so that views do not count."""
    call = op_models.call_of(row.name, row.inputs) if "double" in (row.inputs.types or ()) else None
    return call is not None and op_models.work(call) is not None and _has_doubles_only(call)


def _has_doubles_only(call: Call) -> bool:
    """Whether all floating-point tensors with axes are doubles; Python numbers beside them do not matter."""
    types = {tensor.dtype for tensor in call.tensors if tensor.shape}
    return "double" in types and not types & _NARROWER


def _doubles_by_shape(facts: Facts) -> list[_Double]:
    """Kernels of operators whose tensors are doubles; none if types were not recorded."""
    kernels = facts.find("kernels_by_shape", KernelsByShape)
    doubles = []
    for row in kernels.rows if kernels else ():
        given = Inputs(row.input_shapes, row.input_types)
        call = op_models.call_of(row.operator, given) if "double" in (given.types or ()) else None
        if call is not None and _has_doubles_only(call):
            place = CodePlace("operator", row.operator, row.input_shapes or None, facts.at_place(row.total_ns), "ns")
            doubles.append(_Double(row.kernel, row.events, place, row.total_ns))
    return doubles


def _doubles_by_name(facts: Facts) -> list[_Double]:
    rows = [row for row in facts.kernels if is_fp64(row.name)]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    places = facts.kernel_places(rows)
    return [_Double(k.name, k.events, where, k.total_ns) for k, where in zip(rows, places, strict=True)]


def _multiplies(kernel: str) -> bool:
    return is_fp64_product(kernel) or kernel_class(kernel) in PRODUCTS


def _is_other_vendor(facts: Facts) -> bool:
    """Whether the GPU is not NVIDIA's: those of AMD and Intel that PyTorch supports are built for fp64."""
    devices = facts.summary.devices if facts.summary else ()
    return any(device.vendor not in (None, "NVIDIA") for device in devices)


RULES = (_FP64.rule(trace=_fp64, table=_fp64),)
