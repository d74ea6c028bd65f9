"""Detects work in a wider type than it needs: tensor-cores-unused, tf32-disabled, fp64-on-gpu.

Of products in fp32 outside of Tensor Cores, `tensor-cores-unused` reports those of programs that do not use Tensor
Cores at all, or whose GPU is older than Ampere; its card names TF32 and mixed precision as two steps. `tf32-disabled`
reports them where other products of an Ampere or newer GPU do run on Tensor Cores (convolutions in TF32, or mixed
precision), so that one switch is what is missing. Never both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape
from traceanalyzer.analyzers.operators import operators_at
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.kernel_names import built_for, is_fp32, is_fp64, is_fp64_product
from traceanalyzer.knowledge.op_models import Call, Family, family
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import Interval, summed
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.processor import Processor, intensities, roofline_rows
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, TimeSaved, page
from traceanalyzer.structure.portions import Portion

_UNUSED = page("tensor-cores-unused")
_TF32 = page("tf32-disabled")
_FP64 = page("fp64-on-gpu")

_AMPERE = (8, 0)
_VOLTA = (7, 0)
_MOST = 3.0
"""PyTorch's tuning guide: mixed precision is up to three times faster on Volta and newer."""
_LEAST = 1.3
"""Own choice: the remaining ratio of a product that is half bound by memory or made of small parts."""
_USED = 0.05
"""Own choice: a smaller share of the products' time on Tensor Cores is an accident."""
_PRODUCTS = frozenset({KernelClass.GEMM, KernelClass.MOE, KernelClass.CONVOLUTION})
_CODE_BFLOAT16 = 'with torch.autocast("cuda", dtype=torch.bfloat16): loss = criterion(model(x), y)'

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

_NOT_NVIDIA = Text("rule-no-tensor-core-names", "only names of NVIDIA's kernels show whether a product is in fp32")


class _Precision(msgspec.Struct, frozen=True):
    """How the products of a run are computed."""

    capability: tuple[int, int] | None
    """Compute capability, by the header or at least by the kernels' names; None: unknown."""
    uses_tensor_cores: bool
    """Whether some products run on Tensor Cores."""

    @property
    def is_a_switch(self) -> bool:
        """Whether only TF32 is missing, which the rule `tf32-disabled` reports."""
        return self.capability is not None and self.capability >= _AMPERE and self.uses_tensor_cores


class _Fp32Products(msgspec.Struct, frozen=True):
    """Products in fp32 on ordinary cores, summed over the recording."""

    time_ns: int
    saved_ns: Interval
    claims: Mapping[Portion, float]
    places: tuple[CodePlace, ...]
    """The longest first."""


class _Double(msgspec.Struct, frozen=True):
    """Work in fp64 on a GPU: an operator with some shapes, or a kernel."""

    kernel: str
    part: Portion
    place: CodePlace
    time_ns: int


def _unused(facts: Facts, limits: Limits) -> Drafts:
    used = _precision(facts)
    if used.is_a_switch or (used.capability is not None and used.capability < _VOLTA):
        return
    products = _fp32_products(facts, limits, tf32=False)
    share = facts.gpu_share(products.time_ns)
    if share <= limits["product_share"]:
        return
    low, high = map(facts.on_device, products.saved_ns)
    summary, advice, code = _texts(facts, used)
    if not program.may_train(facts):
        advice, code = _of_inference(advice, code)
    yield Draft(
        (Evidence(_UNUSED.text("subject")(), share, limits["product_share"], "share", products.places),),
        TimeSaved("gpu", (low, high), _UNUSED.text("basis")(), claims=products.claims),
        {"time": facts.on_device(products.time_ns), "share": share},
        confidence="C" if used.capability is None else None,
        summary=summary,
        advice=advice,
        code=code,
    )


def _texts(facts: Facts, used: _Precision) -> tuple[Text | None, Text | None, str | None]:
    """Summary, advice and code, if they differ from the rule's."""
    if used.capability is None:
        return _UNUSED.text("summary-unknown"), None, None
    if used.uses_tensor_cores:
        return _UNUSED.text("summary-partly"), _UNUSED.text("advice-partly"), None
    if program.uses_autocast(facts):
        return None, _UNUSED.text("advice-partly"), None
    if used.capability >= _AMPERE and program.matmul_tf32(facts):
        return None, _UNUSED.text("advice-tf32-allowed"), _CODE_BFLOAT16
    if used.capability >= _AMPERE:
        return None, _UNUSED.text("advice-ampere"), 'torch.set_float32_matmul_precision("high")'
    return None, None, None


def _of_inference(advice: Text | None, code: str | None) -> tuple[Text | None, str | None]:
    """Advice and code for programs without a loss."""
    if code is not None and code.startswith("torch."):
        return _UNUSED.text("advice-inference-tf32"), code
    if advice is None or advice is _UNUSED.text("advice-tf32-allowed"):
        kind = "bfloat16" if code == _CODE_BFLOAT16 else "float16"
        code = f"model = model.to(torch.{kind})  # and its inputs; or torch.autocast around the call"
        return _UNUSED.text("advice-inference"), code
    return advice, code


def _tf32_disabled(facts: Facts, limits: Limits) -> Drafts:
    if not _precision(facts).is_a_switch or program.matmul_tf32(facts):
        return
    products = _fp32_products(facts, limits, tf32=True, only=frozenset({KernelClass.GEMM}))
    share = facts.gpu_share(products.time_ns)
    if share <= limits["product_share"]:
        return
    low, high = map(facts.on_device, products.saved_ns)
    yield Draft(
        (Evidence(_TF32.text("subject")(), share, limits["product_share"], "share", products.places),),
        TimeSaved("gpu", (low, high), _TF32.text("basis")(), claims=products.claims),
        {"time": facts.on_device(products.time_ns), "share": share},
    )


def _precision(facts: Facts) -> _Precision:
    """How products are computed.

    Raises:
        Missing: There are no kernels, or the GPU is not NVIDIA's.
    """
    classes = [(kernel, kernel_class(kernel.name)) for kernel in facts.kernels]
    products = [kernel for kernel, kind in classes if kind in _PRODUCTS]
    attention = [kernel for kernel, kind in classes if kind is KernelClass.ATTENTION]
    on_tensor_cores = sum(kernel.total_ns for kernel in products + attention if kernel.tensor_cores)
    fp32 = sum(kernel.total_ns for kernel in products if is_fp32(kernel.name, kernel.tensor_cores))
    return _Precision(_capability(facts), on_tensor_cores > _USED * (on_tensor_cores + fp32))


def _capability(facts: Facts) -> tuple[int, int] | None:
    """Compute capability by the header, or at least by the kernels' names; None: unknown.

    Raises:
        Missing: The GPU is not NVIDIA's, or there are no kernels.
    """
    devices = [device for device in facts.summary.devices if device.name] if facts.summary else []
    if any(device.vendor not in (None, "NVIDIA") for device in devices):
        raise Missing(_NOT_NVIDIA())
    known = [device.compute_capability.split(".") for device in devices if device.compute_capability]
    if known:
        return min((int(major), int(minor)) for major, minor in known)
    generations = (built_for(kernel.name) for kernel in facts.kernels)
    return max((number for number in generations if number is not None), default=None)


def _fp32_products(
    facts: Facts, limits: Limits, *, tf32: bool, only: frozenset[KernelClass] = _PRODUCTS
) -> _Fp32Products:
    """Products that could get faster: bound neither by memory nor by their launch.

    Args:
        facts: The facts of the run.
        limits: The thresholds of the rule.
        tf32: Whether the products would be computed in TF32, else in half precision.
        only: The classes of kernels that count.
    """
    by_shape = facts.find("kernels_by_shape", KernelsByShape)
    if by_shape is None:
        return _by_kernel(facts, limits, tf32, only)
    flops_per_byte = intensities(facts)
    times: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in by_shape.rows:
        key = row.operator, row.input_shapes
        counts = kernel_class(row.kernel) in only and is_fp32(row.kernel, row.tensor_cores)
        busy = row.total_ns >= limits["kernel_ns"] * row.calls
        if counts and busy and flops_per_byte.get(key, limits["flops_per_byte"]) >= limits["flops_per_byte"]:
            times[key] += row.total_ns
    order = sorted(times, key=lambda key: (-times[key], key))
    saved = {key: _saved(facts, key, times[key], tf32=tf32) for key in order}
    return _Fp32Products(
        sum(times.values()),
        (sum(low for low, _ in saved.values()), sum(high for _, high in saved.values())),
        {Portion.operator(name, shapes): facts.on_device(high) for (name, shapes), (_, high) in saved.items()},
        tuple(CodePlace("operator", name, shapes or None, times[name, shapes], "ns") for name, shapes in order),
    )


def _by_kernel(facts: Facts, limits: Limits, tf32: bool, only: frozenset[KernelClass]) -> _Fp32Products:
    kernels = [k for k in facts.kernels if kernel_class(k.name) in only and is_fp32(k.name, k.tensor_cores)]
    kernels = [k for k in kernels if k.calls and k.total_ns >= limits["kernel_ns"] * k.calls]
    time = sum(kernel.total_ns for kernel in kernels)
    counted = min(time, _arithmetic(facts, limits, time))
    ratio = _ratio(facts.gpu, tf32=tf32)
    part = (1 - 1 / ratio) * counted / time if time else 0.0
    return _Fp32Products(
        counted,
        ((1 - 1 / min(_LEAST, ratio)) * counted, (1 - 1 / ratio) * counted),
        {Portion.kernel(kernel.name): facts.on_device(part * kernel.total_ns) for kernel in kernels},
        facts.kernel_places(sorted(kernels, key=lambda k: (-k.total_ns, k.name))),
    )


def _arithmetic(facts: Facts, limits: Limits, otherwise: int) -> int:
    """Time of products that are not bound by memory, from a table with shapes, which links no kernels to products."""
    flops_per_byte = intensities(facts)
    if not flops_per_byte:
        return otherwise
    limit = limits["flops_per_byte"]
    products = [op for op in facts.shaped if family(op.name) in (Family.GEMM, Family.CONVOLUTION)]
    return sum(op.device_self_ns for op in products if flops_per_byte.get((op.name, op.shapes or ""), limit) >= limit)


def _saved(facts: Facts, key: tuple[str, str], time: int, *, tf32: bool) -> Interval:
    """Saving by the ratio of the peak rates, within what peak rate and memory bandwidth allow."""
    device, row = facts.gpu, roofline_rows(facts).get(key)
    most = (1 - 1 / _ratio(device, tf32=tf32)) * time
    peak = (device.tf32 if tf32 else device.fp16) if device else None
    if row is not None and device is not None and peak and device.bandwidth and row.bytes is not None:
        size = row.bytes if tf32 else row.bytes / 2
        least = max(row.flops / peak / 1000, size / device.bandwidth) * time / row.device_ns
        most = min(most, max(0.0, time - least))
    return min(most, (1 - 1 / _LEAST) * time), most


def _ratio(device: Gpu | None, *, tf32: bool) -> float:
    peak = (device.tf32 if tf32 else device.fp16) if device else None
    return max(_LEAST, min(_MOST, peak / device.fp32)) if device and peak and device.fp32 else _MOST


def _fp64(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    if processor.is_cpu:
        yield from _fp64_on_cpu(processor, limits)
        return
    if not facts.kernels or _is_other_vendor(facts):
        return
    generation = _capability(facts)
    if generation in _FULL_RATE:
        return
    doubles = _doubles_by_shape(facts) or _doubles_by_name(facts)
    time = sum(entry.time_ns for entry in doubles)
    share = facts.gpu_share(time)
    if share <= limits["gpu_share"]:
        return
    parts = [(1 - 1 / (_MULTIPLIES if _multiplies(row.kernel) else _MOVES)) * row.time_ns for row in doubles]
    claims = summed((row.part, facts.on_device(part)) for row, part in zip(doubles, parts, strict=True))
    saved = facts.on_device((1 - 1 / _MOVES) * time), facts.on_device(sum(parts))
    where = tuple(entry.place for entry in doubles)
    yield Draft(
        (Evidence(_FP64.text("subject")(), share, limits["gpu_share"], "share", where),),
        TimeSaved("gpu", saved, _FP64.text("basis")(), claims=claims),
        {"time": facts.on_device(time), "share": share},
        confidence="C" if generation is None else None,
        summary=_FP64.text("summary-unknown") if generation is None else None,
    )


def _fp64_on_cpu(processor: Processor, limits: Limits) -> Drafts:
    """Without a GPU the operators themselves take the time."""
    rows = [row for row in processor.facts.shaped if '"double"' in (row.types or "") and _computes_doubles(row)]
    rows.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
    time = sum(map(processor.self_ns, rows))
    share = processor.share(time)
    if share <= processor.limit(limits):
        return
    work = {row.part: processor.per_step(max(0, processor.self_ns(row) - _CALL_NS * row.calls)) for row in rows}
    least, most = _ON_CPU
    total = fsum(work.values())
    claims = {claim: most * ns for claim, ns in work.items()}
    basis = _FP64.text("basis-cpu")(least=least, most=most)
    at = partial(operators_at, rows=[(row.name, row.shapes, row.types) for row in rows])
    yield Draft(
        (Evidence(_FP64.text("subject-cpu")(), share, processor.limit(limits), "share", processor.places(rows)),),
        TimeSaved("host", (least * total, most * total), basis, claims=claims, at=at),
        {"time": processor.per_step(time), "share": share},
        summary=_FP64.text("summary-cpu"),
    )


def _computes_doubles(row: OperatorFact) -> bool:
    """Whether an operator reads or writes doubles; its work must be known, so that views do not count."""
    call = op_models.parse(row.name, row.shapes or "", row.types or "")
    return call is not None and op_models.work(call) is not None and _has_doubles_only(call)


def _has_doubles_only(call: Call) -> bool:
    """Whether all floating-point tensors with axes are doubles; Python numbers beside them do not matter."""
    types = {tensor.dtype for tensor in call.tensors if tensor.shape}
    return "double" in types and not types & _NARROWER


def _doubles_by_shape(facts: Facts) -> list[_Double]:
    """Kernels of operators whose tensors are doubles; none if types were not recorded."""
    kernels = facts.find("kernels_by_shape", KernelsByShape)
    doubles = []
    for row in (row for row in (kernels.rows if kernels else ()) if '"double"' in row.input_types):
        call = op_models.parse(row.operator, row.input_shapes, row.input_types)
        if call is not None and _has_doubles_only(call):
            place = CodePlace("operator", row.operator, row.input_shapes or None, row.total_ns, "ns")
            doubles.append(_Double(row.kernel, Portion.operator(row.operator, row.input_shapes), place, row.total_ns))
    return doubles


def _doubles_by_name(facts: Facts) -> list[_Double]:
    rows = [row for row in facts.kernels if is_fp64(row.name)]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    places = facts.kernel_places(rows)
    return [_Double(k.name, Portion.kernel(k.name), where, k.total_ns) for k, where in zip(rows, places, strict=True)]


def _multiplies(kernel: str) -> bool:
    return is_fp64_product(kernel) or kernel_class(kernel) in _PRODUCTS


def _is_other_vendor(facts: Facts) -> bool:
    """Whether the GPU is from AMD or Intel: their devices that PyTorch supports are built for fp64."""
    devices = facts.summary.devices if facts.summary else ()
    return any(device.vendor not in (None, "NVIDIA") for device in devices)


RULES = (
    _UNUSED.rule(trace=_unused, table=_unused),
    _TF32.rule(trace=_tf32_disabled, table=_tf32_disabled),
    _FP64.rule(trace=_fp64, table=_fp64),
)
