"""Detects fp64-on-gpu: see pages/fp64-on-gpu.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from traceanalyzer.analyzers.kernels import KernelByShape, KernelsByShape
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._precision import capability
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("fp64-on-gpu")
_FULL_RATE = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities with fp64 at half the rate of fp32 (CUDA C++ Programming Guide, arithmetic instructions)."""
_MOVES = 2.0
_MULTIPLIES = 16.0
"""Own choice: a bound below the 32 to 64 of the data sheets, because fp32 products are soon bound by memory."""
_ON_CPU = 0.55, 0.85
"""Least and most part of the time of the work that goes away on a CPU (measured in the lab, explained on the page)."""
_CALL_NS = 2_000
"""Time of a call that does not depend on the type (own choice: operators on a few numbers take 1 to 3 us)."""
_NARROWER = frozenset({"float", "c10::Half", "c10::BFloat16"})
_PRODUCT = re.compile(r"dgemm|d884|dmma|f64f64", re.IGNORECASE)
_DOUBLE = re.compile(r"dgemm|dgemv|d884|dmma|f64f64|\bdouble\b")


@dataclass(frozen=True)
class _Double:
    name: str
    claim: str
    place: CodePlace
    time_ns: int


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    processor = Processor.of(facts)
    if processor.is_cpu:
        yield from _on_cpu(processor, limits)
        return
    if not facts.kernels or not facts.gpu_total_ns:
        return
    if _is_other_vendor(facts):
        return
    generation = capability(facts)
    if generation in _FULL_RATE:
        return
    found = _by_shape(facts) or _by_name(facts)
    time = sum(entry.time_ns for entry in found)
    share = time / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    parts = [(1 - 1 / (_MULTIPLIES if _is_product(entry.name) else _MOVES)) * entry.time_ns for entry in found]
    claims: dict[str, float] = {}
    for entry, part in zip(found, parts, strict=True):
        claims[entry.claim] = claims.get(entry.claim, 0.0) + facts.gpu_per_step(part)
    low, high = facts.gpu_per_step((1 - 1 / _MOVES) * time), facts.gpu_per_step(sum(parts))
    yield Draft(
        (
            Evidence(
                _PAGE.text("subject")(), share, limits["gpu_share"], "share", tuple(entry.place for entry in found[:5])
            ),
        ),
        TimeSaved("gpu", (low, high), _PAGE.text("basis")(), claims=claims),
        {"time": facts.gpu_per_step(time), "share": share},
        confidence="C" if generation is None else None,
        summary=_PAGE.text("summary-unknown") if generation is None else None,
    )


def _on_cpu(processor: Processor, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Without a GPU the operators themselves take the time."""
    rows = [row for row in processor.facts.shaped if '"double"' in (row.types or "") and _computes_doubles(row)]
    rows.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
    time = sum(map(processor.self_ns, rows))
    share = processor.share(time)
    if share <= processor.limit(limits):
        return
    work = {
        f"operator:{row.name}|{row.shapes}": processor.per_step(max(0, processor.self_ns(row) - _CALL_NS * row.calls))
        for row in rows
    }
    least, most = _ON_CPU
    total = sum(work.values())
    where = tuple(
        CodePlace("operator", row.name, shapes=row.shapes, value=processor.self_ns(row), unit="ns") for row in rows[:5]
    )
    yield Draft(
        (Evidence(_PAGE.text("subject-cpu")(), share, processor.limit(limits), "share", where),),
        TimeSaved(
            "host",
            (least * total, most * total),
            _PAGE.text("basis-cpu")(least=least, most=most),
            claims={key: most * ns for key, ns in work.items()},
        ),
        {"time": processor.per_step(time), "share": share},
        summary=_PAGE.text("summary-cpu"),
    )


def _computes_doubles(row: OperatorFact) -> bool:
    """Whether an operator reads or writes doubles; its work must be known, so that views do not count."""
    call = op_models.parse(row.name, row.shapes or "", row.types or "")
    if call is None or op_models.work(call) is None:
        return False
    types = {tensor.dtype for tensor in call.tensors if tensor.shape}
    return "double" in types and not types & _NARROWER


def _by_shape(facts: Facts) -> list[_Double]:
    """Kernels of operators whose tensors are doubles; none if types were not recorded."""
    found = facts.find("kernels_by_shape", KernelsByShape)
    return [
        _Double(
            row.kernel,
            f"operator:{row.operator}|{row.input_shapes}",
            CodePlace("operator", row.operator, shapes=row.input_shapes or None, value=row.total_ns, unit="ns"),
            row.total_ns,
        )
        for row in (found.rows if found else ())
        if '"double"' in row.input_types and _is_double(row)
    ]


def _is_double(row: KernelByShape) -> bool:
    """Whether all floating-point tensors with axes are doubles; Python numbers beside them do not matter."""
    call = op_models.parse(row.operator, row.input_shapes, row.input_types)
    types = {tensor.dtype for tensor in call.tensors if tensor.shape} if call else set()
    return "double" in types and not types & _NARROWER


def _by_name(facts: Facts) -> list[_Double]:
    kind = "row" if facts.table is not None else "kernel"
    rows = sorted(facts.kernels, key=lambda kernel: (-kernel.total_ns, kernel.name))
    return [
        _Double(row.name, f"kernel:{row.name}", CodePlace(kind, row.name, value=row.total_ns, unit="ns"), row.total_ns)
        for row in rows
        if _DOUBLE.search(row.name) and "float" not in row.name
    ]


def _is_product(name: str) -> bool:
    return _PRODUCT.search(name) is not None or kernel_class(name) in (
        KernelClass.GEMM,
        KernelClass.MOE,
        KernelClass.CONVOLUTION,
    )


def _is_other_vendor(facts: Facts) -> bool:
    """Whether the GPU is from AMD or Intel: their devices that PyTorch supports are built for fp64."""
    devices = facts.summary.devices if facts.summary else ()
    return any(device.vendor not in (None, "NVIDIA") for device in devices)


RULE = _PAGE.rule(trace=_find, table=_find)
