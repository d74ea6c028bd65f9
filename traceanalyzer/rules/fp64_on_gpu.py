"""Numbers are computed in fp64, which few programs need.

What it detects:
    Kernels in double precision (`dgemm`, `<double, ...>`, or operators whose inputs are doubles), unless the GPU
    computes fp64 at half the rate of fp32 (compute capability 6.0, 7.0, 8.0, 9.0 and 10.0, and AMD's Instinct). In a
    program without a GPU, operators that compute on doubles.

Why it matters:
    Other GPUs compute fp64 at 1/32 or 1/64 of the rate of fp32, and everywhere doubles move twice the bytes. A vector
    instruction of a CPU computes half as many doubles as floats. Doubles mostly slip in: from NumPy, from a Python
    float, or from a changed default.

What to do:
    Convert to fp32 where the data enters: `torch.from_numpy(x).float()`, or `dtype=torch.float32` when creating
    tensors.

How the saving is estimated:
    At least half of the time, because fp32 moves half the bytes. At most the same for kernels that move data, and 15/16
    for products, which are bound by arithmetic. In a program without a GPU 55 to 85 % of the time beyond 2 us per call,
    which is the cost of calling for any type: half of the bytes and instructions are saved, and more if floats fit into
    a cache that doubles did not fit into (in the lab operators took 1.8 to 3.4 times as long in fp64, and the step
    gained up to 0.9 times this time, because what follows also finds more of its data in the cache).

When it is wrong:
    Scientific code may need the precision. On GPUs built for fp64 there is no finding. A table does not name the GPU,
    so the generation in the kernels' names is used; without one, the finding says that it depends on the GPU.

References:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions
    https://docs.pytorch.org/docs/stable/generated/torch.set_default_dtype.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from traceanalyzer.analyzers.kernels import KernelByShape, KernelsByShape
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_patterns import KernelClass
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._precision import capability
from traceanalyzer.rules._processor import Processor, host_share
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

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
_SUBJECT = Text("fp64-on-gpu-subject", "kernels in fp64, share of the time on the GPU")
_BASIS = Text(
    "fp64-on-gpu-basis",
    "half of the time of kernels that move data, because fp32 has half the bytes; for products at least half and at "
    "most 15/16",
)
_SUBJECT_CPU = Text("fp64-on-gpu-subject-cpu", "operators on doubles, share of the step")
_BASIS_CPU = Text(
    "fp64-on-gpu-basis-cpu",
    "{least:share} to {most:share} of the time of the operators without their calls, because fp32 has half the bytes "
    "and half the instructions",
)
_SUMMARY_CPU = Text(
    "fp64-on-gpu-summary-cpu",
    "Operators on doubles take {time:ns} per step ({share:share}). Doubles move twice the bytes of fp32 and need twice "
    "the instructions.",
)
_SUMMARY_UNKNOWN = Text(
    "fp64-on-gpu-summary-unknown",
    "{time:ns} per step ({share:share} of the time on the GPU) is computed in fp64. The GPU is unknown; most GPUs "
    "compute fp64 at a thirty-second of the rate of fp32 or less.",
)


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
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", tuple(entry.place for entry in found[:5])),),
        TimeSaved("gpu", (low, high), _BASIS(), claims=claims),
        {"time": facts.gpu_per_step(time), "share": share},
        confidence="C" if generation is None else None,
        summary=_SUMMARY_UNKNOWN if generation is None else None,
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
        (Evidence(_SUBJECT_CPU(), share, processor.limit(limits), "share", where),),
        TimeSaved(
            "host",
            (least * total, most * total),
            _BASIS_CPU(least=least, most=most),
            claims={key: most * ns for key, ns in work.items()},
        ),
        {"time": processor.per_step(time), "share": share},
        summary=_SUMMARY_CPU,
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


RULE = Rule(
    id="fp64-on-gpu",
    title=Text("fp64-on-gpu-title", "Numbers are computed in double precision"),
    summary=Text(
        "fp64-on-gpu-summary",
        "{time:ns} per step ({share:share} of the time on the GPU) is computed in fp64, which is many times slower "
        "than fp32 on this GPU.",
    ),
    advice=Text(
        "fp64-on-gpu-advice",
        "Convert to fp32 where the data enters; NumPy arrays and Python floats are double precision by default.",
    ),
    not_when=Text(
        "fp64-on-gpu-not-when",
        "The computation needs more than seven digits, as in solvers and simulations.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("gpu", "precision"),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.01,
            "share",
            "time of kernels in fp64 over all time on the GPU",
            "own choice, because less than one percent of a step is within noise",
        ),
        host_share(
            "time of operators on doubles",
            0.05,
            "own choice, because about half of it can be saved, and less is about the noise of a step on a CPU",
        ),
    ),
    code="x = torch.from_numpy(array).float()",
    links=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions",
        "https://docs.pytorch.org/docs/stable/generated/torch.set_default_dtype.html",
    ),
    trace=_find,
    table=_find,
)
