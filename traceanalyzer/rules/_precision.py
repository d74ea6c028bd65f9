"""Finds products that run in fp32 outside of Tensor Cores, and decides which rule on precision reports them.

`tensor-cores-unused` reports it where Tensor Cores are not used at all, or the GPU is older than Ampere; its card names
TF32 and mixed precision as two steps. `tf32-disabled` reports it where other products of an Ampere or newer GPU do run
on Tensor Cores (convolutions in TF32, or mixed precision), so that one switch is what is missing. Never both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape
from traceanalyzer.knowledge.first_match import FirstMatch
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.op_models import Family, family
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules._products import intensities, roofline_rows
from traceanalyzer.rules.engine.change import Interval
from traceanalyzer.rules.engine.facts import Facts, KernelFact, Missing

AMPERE = (8, 0)
VOLTA = (7, 0)
_MOST = 3.0
"""PyTorch's tuning guide: mixed precision is up to three times faster on Volta and newer."""
_LEAST = 1.3
"""Own choice: the remaining ratio of a product that is half bound by memory or made of small parts."""
_USED = 0.05
"""Own choice: a smaller share of the products' time on Tensor Cores is an accident."""
_PRODUCTS = (KernelClass.GEMM, KernelClass.MOE, KernelClass.CONVOLUTION)

_FP32 = re.compile(
    r"sgemm|scudnn|simt_s|ffma|winograd|convolve_sgemm|[dw]grad\w{0,32}_(engine|alg\d)|f32f32_f32f32"
    r"|^(?>.*?cudnn::\w).*<float",
    re.IGNORECASE,
)
_HALF = re.compile(r"half|bfloat|bf16|fp16|(?<!t)f16|h884|h1688|h16816|hgemm|hmma|hcudnn", re.IGNORECASE)
_OTHER_TYPES = re.compile(r"i8|imma|int8|e4m3|e5m2|fp8|d884|dmma|dgemm|zgemm|cgemm", re.IGNORECASE)
_ARCHITECTURES = FirstMatch(
    (
        (r"sm100|blackwell|tcgen05", (10, 0)),
        (r"sm90|hopper|nvjet", (9, 0)),
        (r"sm8\d|ampere|cutlass_8\d", (8, 0)),
        (r"turing|cutlass_75", (7, 5)),
        (r"volta|cutlass_70", (7, 0)),
    )
)
"""A kernel that was built for a generation runs on it or on a newer one."""

_NOT_NVIDIA = Text("rule-no-tensor-core-names", "only names of NVIDIA's kernels show whether a product is in fp32")


class Fp32Products(msgspec.Struct, frozen=True):
    """Products in fp32 on ordinary cores, summed over the recording."""

    time_ns: int
    saved_ns: Interval
    claims: Mapping[str, float]
    places: tuple[CodePlace, ...]
    """The longest first."""


class Precision(msgspec.Struct, frozen=True):
    """How the products of a run are computed."""

    capability: tuple[int, int] | None
    """Compute capability, by the header or at least by the kernels' names; None: unknown."""
    on_tensor_cores_ns: int
    fp32_ns: int
    has_half: bool
    """Whether some product is in fp16 or bf16."""

    @property
    def uses_tensor_cores(self) -> bool:
        """Whether some products run on Tensor Cores."""
        return self.on_tensor_cores_ns > _USED * (self.on_tensor_cores_ns + self.fp32_ns)

    @property
    def is_a_switch(self) -> bool:
        """Whether only TF32 is missing, which the rule `tf32-disabled` reports."""
        return self.capability is not None and self.capability >= AMPERE and self.uses_tensor_cores


def precision(facts: Facts) -> Precision:
    """How products are computed.

    Raises:
        Missing: There are no kernels, or the GPU is not NVIDIA's.
    """
    classes = [(kernel, kernel_class(kernel.name)) for kernel in facts.kernels]
    products = [kernel for kernel, found in classes if found in _PRODUCTS]
    attention = [kernel for kernel, found in classes if found is KernelClass.ATTENTION]
    return Precision(
        capability(facts),
        sum(kernel.total_ns for kernel in products + attention if kernel.tensor_cores),
        sum(kernel.total_ns for kernel in products if _is_fp32(kernel.name, kernel.tensor_cores)),
        any(_HALF.search(kernel.name) for kernel in products + attention),
    )


def fp32_products(
    facts: Facts, limits: Mapping[str, float], *, tf32: bool, only: frozenset[KernelClass] = frozenset(_PRODUCTS)
) -> Fp32Products:
    """Products that could get faster: bound neither by memory nor by their launch.

    Args:
        facts: The facts of the run.
        limits: The thresholds above.
        tf32: Whether the products would be computed in TF32, else in half precision.
        only: The classes of kernels that count.
    """
    found = facts.find("kernels_by_shape", KernelsByShape)
    if found is None:
        return _by_kernel(facts, limits, tf32, only)
    flops_per_byte = intensities(facts)
    times: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in found.rows:
        key = row.operator, row.input_shapes
        counts = kernel_class(row.kernel) in only and _is_fp32(row.kernel, row.tensor_cores)
        busy = row.total_ns >= limits["kernel_ns"] * row.calls
        if counts and busy and flops_per_byte.get(key, limits["flops_per_byte"]) >= limits["flops_per_byte"]:
            times[key] += row.total_ns
    order = sorted(times, key=lambda key: (-times[key], key))
    saved = [_saved(facts, key, times[key], tf32=tf32) for key in order]
    return Fp32Products(
        sum(times.values()),
        (sum(low for low, _ in saved), sum(high for _, high in saved)),
        {
            f"operator:{name}|{shapes}": facts.gpu_per_step(high)
            for (name, shapes), (_, high) in zip(order, saved, strict=True)
        },
        tuple(CodePlace("operator", n, shapes=s or None, value=times[n, s], unit="ns") for n, s in order[:5]),
    )


def _by_kernel(facts: Facts, limits: Mapping[str, float], tf32: bool, only: frozenset[KernelClass]) -> Fp32Products:
    kernels = [k for k in facts.kernels if kernel_class(k.name) in only and _is_fp32(k.name, k.tensor_cores)]
    kernels = [k for k in kernels if k.calls and k.total_ns >= limits["kernel_ns"] * k.calls]
    time = sum(kernel.total_ns for kernel in kernels)
    counted = min(time, _arithmetic(facts, limits, time))
    ratio = _ratio(facts.gpu, tf32=tf32)
    part = (1 - 1 / ratio) * counted / time if time else 0.0
    return Fp32Products(
        counted,
        ((1 - 1 / min(_LEAST, ratio)) * counted, (1 - 1 / ratio) * counted),
        {f"kernel:{kernel.name}": facts.gpu_per_step(part * kernel.total_ns) for kernel in kernels},
        tuple(_place(kernel, facts) for kernel in sorted(kernels, key=lambda k: (-k.total_ns, k.name))[:5]),
    )


def _place(kernel: KernelFact, facts: Facts) -> CodePlace:
    kind = "row" if facts.table is not None else "kernel"
    return CodePlace(kind, kernel.name, value=kernel.total_ns, unit="ns")


def _arithmetic(facts: Facts, limits: Mapping[str, float], otherwise: int) -> int:
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
    ratio = _ratio(device, tf32=tf32)
    most = (1 - 1 / ratio) * time
    peak = (device.tf32 if tf32 else device.fp16) if device else None
    if row is not None and device is not None and peak and device.bandwidth and row.bytes is not None:
        size = row.bytes if tf32 else row.bytes / 2
        least = max(row.flops / peak / 1000, size / device.bandwidth) * time / row.device_ns
        most = min(most, max(0.0, time - least))
    return min(most, (1 - 1 / _LEAST) * time), most


def _ratio(device: Gpu | None, *, tf32: bool) -> float:
    peak = (device.tf32 if tf32 else device.fp16) if device else None
    return max(_LEAST, min(_MOST, peak / device.fp32)) if device and peak and device.fp32 else _MOST


def _is_fp32(name: str, tensor_cores: bool | None) -> bool:
    """Whether the name of a kernel shows fp32; False for a name without a type."""
    is_other = _HALF.search(name) or _OTHER_TYPES.search(name)
    return tensor_cores is False and not is_other and _FP32.search(name) is not None


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
    built_for = (_ARCHITECTURES.find(kernel.name) for kernel in facts.kernels)
    return max((number for number in built_for if number is not None), default=None)
