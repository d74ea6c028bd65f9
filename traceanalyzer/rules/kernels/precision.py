"""Detects work in fp32 that a narrower type makes faster: mixed-precision-unused, tensor-cores-unused, tf32-disabled.

Never two of them. Where nothing is multiplied in 16 bits on Ampere or newer, `mixed-precision-unused` reports products,
convolutions and attention in fp32 on one card, with TF32 as the second choice. Where a part is in 16 bits already,
`tf32-disabled` reports the products that are left in fp32. `tensor-cores-unused` is for older and unknown GPUs, and for
programs that enter autocast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.kernel_names import built_for, is_fp32, is_fp32_attention, is_tf32
from traceanalyzer.knowledge.op_models import Family, family
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import DeviceWork, Interval, summed
from traceanalyzer.rules.engine.processor import intensities, roofline_rows
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import EventSet

_MIXED = page("mixed-precision-unused")
_UNUSED = page("tensor-cores-unused")
_TF32 = page("tf32-disabled")

_AMPERE = (8, 0)
_VOLTA = (7, 0)
_MOST = 3.0
"""PyTorch's tuning guide: mixed precision is up to three times faster on Volta and newer."""
_LEAST = 1.3
"""Own choice: the remaining ratio of a product that is half bound by memory or made of small parts."""
_LEAST_MIXED = 2.0
"""Own choice, for 16 bits on Ampere and newer: a quarter to an eighth of what their data sheets promise over ordinary
cores, and far less than the 12 times that one program's products gained (masks of images on an A100)."""
_USED = 0.05
"""Own choice: a smaller share of the products' time on Tensor Cores is an accident."""
PRODUCTS = frozenset({KernelClass.GEMM, KernelClass.MOE, KernelClass.CONVOLUTION})
_FURTHER = 1.1, 1.5
"""Least and greatest speedup in 16 bits of what uses Tensor Cores in fp32 already: convolutions in TF32, attention (own
choice: between a kernel that is bound by other things, and one that is bound by bytes and the exponentials of fp32)."""
_CODE_TRAINING = 'with torch.autocast("cuda", dtype=torch.bfloat16): loss = criterion(model(x), y)'
_CODE_INFERENCE = "model = model.to(torch.{kind})"

_NOT_NVIDIA = Text("rule-no-tensor-core-names", "only names of NVIDIA's kernels show whether a product is in fp32")


class _Precision(msgspec.Struct, frozen=True):
    """How the products of a run are computed."""

    capability: tuple[int, int] | None
    """Compute capability, by the header or at least by the kernels' names; None: unknown."""
    uses_tensor_cores: bool
    """Whether some products run on Tensor Cores."""
    is_fp32_only: bool
    """Whether an Ampere or newer GPU multiplies nothing in 16 bits, nor is that asked for."""

    @property
    def is_a_switch(self) -> bool:
        """Whether only TF32 is missing, which the rule `tf32-disabled` reports."""
        is_new = self.capability is not None and self.capability >= _AMPERE
        return is_new and self.uses_tensor_cores and not self.is_fp32_only


class _Fp32Work(msgspec.Struct, frozen=True):
    """Work in fp32, summed over the typical steps."""

    time_ns: int
    saved_ns: Interval
    claims: Mapping[EventSet, float]
    places: tuple[CodePlace, ...]
    """The longest first."""


def _mixed(facts: Facts, limits: Limits) -> Drafts:
    if not _precision(facts).is_fp32_only:
        return
    products = _fp32_products(facts, limits, tf32=False, least=_LEAST_MIXED)
    attention, tf32 = _further(facts, limits, is_fp32_attention), _further(facts, limits, is_tf32)
    parts = [products, attention, tf32]
    time = sum(part.time_ns for part in parts)
    share = facts.gpu_share(time)
    if share <= limits["fp32_share"]:
        return
    low, high = (facts.on_device(fsum(part.saved_ns[end] for part in parts)) for end in (0, 1))
    texts = _MIXED.text("of-products"), _MIXED.text("of-attention"), _MIXED.text("of-tf32")
    named = zip(texts, parts, strict=True)
    told = tuple(text(time=facts.on_device(part.time_ns)) for text, part in named if part.time_ns)
    places = sorted((place for part in parts for place in part.places), key=lambda place: -(place.value or 0))
    needs_tf32 = products.time_ns > 0 and not program.matmul_tf32(facts)
    second = _MIXED.text("second-tf32") if needs_tf32 else _MIXED.text("second-used")
    trains = program.may_train(facts)
    yield Draft(
        (Evidence(_MIXED.text("subject")(), share, limits["fp32_share"], "share", tuple(places)),),
        DeviceWork(
            (low, high),
            _MIXED.text("basis")(),
            claims=summed(claim for part in parts for claim in part.claims.items()),
        ),
        {"time": OfEvents(facts.on_device(time)), "share": share, "parts": told, "second": second},
        advice=None if trains else _MIXED.text("advice-inference"),
        code=_CODE_TRAINING if trains else _CODE_INFERENCE.format(kind="bfloat16"),
    )


def _unused(facts: Facts, limits: Limits) -> Drafts:
    used = _precision(facts)
    if used.is_fp32_only or used.is_a_switch or (used.capability is not None and used.capability < _VOLTA):
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
        DeviceWork((low, high), _UNUSED.text("basis")(), claims=products.claims),
        {"time": OfEvents(facts.on_device(products.time_ns)), "share": share},
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
    return None, None, None


def _of_inference(advice: Text | None, code: str | None) -> tuple[Text | None, str | None]:
    """Advice and code for programs without a loss."""
    return (
        (advice, code)
        if advice is not None
        else (_UNUSED.text("advice-inference"), _CODE_INFERENCE.format(kind="float16"))
    )


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
        DeviceWork((low, high), _TF32.text("basis")(), claims=products.claims),
        {"time": OfEvents(facts.on_device(products.time_ns)), "share": share},
    )


def _precision(facts: Facts) -> _Precision:
    """How products are computed.

    Raises:
        Missing: There are no kernels, or the GPU is not NVIDIA's.
    """
    generation = capability(facts)
    classes = [(kernel, kernel_class(kernel.name)) for kernel in facts.kernels]
    products = [kernel for kernel, kind in classes if kind in PRODUCTS or kind is KernelClass.ATTENTION]
    on_tensor_cores = sum(kernel.total_ns for kernel in products if kernel.tensor_cores)
    in_fp32 = sum(kernel.total_ns for kernel in products if kernel.tensor_cores and _is_further(kernel.name))
    fp32 = sum(kernel.total_ns for kernel in products if is_fp32(kernel.name, kernel.tensor_cores))
    limit = _USED * (on_tensor_cores + fp32)
    is_new = generation is not None and generation >= _AMPERE
    is_fp32_only = is_new and on_tensor_cores - in_fp32 <= limit and not program.uses_autocast(facts)
    return _Precision(generation, on_tensor_cores > limit, is_fp32_only)


def _is_further(kernel: str) -> bool:
    """Whether a kernel computes fp32 numbers on Tensor Cores."""
    return is_tf32(kernel) or is_fp32_attention(kernel)


def capability(facts: Facts) -> tuple[int, int] | None:
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
    facts: Facts,
    limits: Limits,
    *,
    tf32: bool,
    only: frozenset[KernelClass] = PRODUCTS,
    least: float = _LEAST,
) -> _Fp32Work:
    """Products that could get faster: bound neither by memory nor by their launch.

    Args:
        facts: The facts of the run.
        limits: The thresholds of the rule.
        tf32: Whether the products would be computed in TF32, else in half precision.
        only: The classes of kernels that count.
        least: Their least speedup.
    """
    by_shape = facts.find("kernels_by_shape", KernelsByShape)
    if by_shape is None:
        return _by_kernel(facts, limits, tf32, only, least)
    flops_per_byte = intensities(facts)
    times: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in by_shape.rows:
        key = row.operator, row.input_shapes
        counts = kernel_class(row.kernel) in only and is_fp32(row.kernel, row.tensor_cores)
        busy = row.total_ns >= limits["kernel_ns"] * row.calls
        if counts and busy and flops_per_byte.get(key, limits["flops_per_byte"]) >= limits["flops_per_byte"]:
            times[key] += row.total_ns
    order = sorted(times, key=lambda key: (-times[key], key))
    saved = {key: _saved(facts, key, times[key], tf32=tf32, least=least) for key in order}
    return _Fp32Work(
        sum(times.values()),
        (fsum(low for low, _ in saved.values()), fsum(high for _, high in saved.values())),
        {EventSet.operator(name, shapes): facts.on_device(high) for (name, shapes), (_, high) in saved.items()},
        tuple(CodePlace("operator", key[0], key[1] or None, facts.at_place(times[key]), "ns") for key in order),
    )


def _further(facts: Facts, limits: Limits, is_wanted: Callable[[str], bool]) -> _Fp32Work:
    """Work in fp32 that uses Tensor Cores already, by the names of kernels."""
    kernels = [k for k in facts.kernels if is_wanted(k.name) and k.total_ns >= limits["kernel_ns"] * k.calls]
    time, (least, most) = sum(kernel.total_ns for kernel in kernels), _FURTHER
    return _Fp32Work(
        time,
        ((1 - 1 / least) * time, (1 - 1 / most) * time),
        {kernel.events: facts.on_device((1 - 1 / most) * kernel.total_ns) for kernel in kernels},
        facts.kernel_places(kernels),
    )


def _by_kernel(facts: Facts, limits: Limits, tf32: bool, only: frozenset[KernelClass], least: float) -> _Fp32Work:
    kernels = [k for k in facts.kernels if kernel_class(k.name) in only and is_fp32(k.name, k.tensor_cores)]
    kernels = [k for k in kernels if k.calls and k.total_ns >= limits["kernel_ns"] * k.calls]
    time = sum(kernel.total_ns for kernel in kernels)
    counted = min(time, _arithmetic(facts, limits, time))
    ratio = _ratio(facts.gpu, tf32=tf32)
    part = (1 - 1 / ratio) * counted / time if time else 0.0
    return _Fp32Work(
        counted,
        ((1 - 1 / min(least, ratio)) * counted, (1 - 1 / ratio) * counted),
        {kernel.events: facts.on_device(part * kernel.total_ns) for kernel in kernels},
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


def _saved(facts: Facts, key: tuple[str, str], time: int, *, tf32: bool, least: float) -> Interval:
    """Saving by the ratio of the peak rates, within what peak rate and memory bandwidth allow."""
    device, row = facts.gpu, roofline_rows(facts).get(key)
    most = (1 - 1 / _ratio(device, tf32=tf32)) * time
    peak = (device.tf32 if tf32 else device.fp16) if device else None
    if row is not None and device is not None and peak and device.bandwidth and row.bytes is not None:
        size = row.bytes if tf32 else row.bytes / 2
        bound = max(row.flops / peak / 1000, size / device.bandwidth) * time / row.device_ns
        most = min(most, max(0.0, time - bound))
    return min(most, (1 - 1 / least) * time), most


def _ratio(device: Gpu | None, *, tf32: bool) -> float:
    peak = (device.tf32 if tf32 else device.fp16) if device else None
    return max(_LEAST, min(_MOST, peak / device.fp32)) if device and peak and device.fp32 else _MOST


RULES = (
    _MIXED.rule(trace=_mixed, table=_mixed),
    _UNUSED.rule(trace=_unused, table=_unused),
    _TF32.rule(trace=_tf32_disabled, table=_tf32_disabled),
)
