"""Detects work in fp32 that a narrower type makes faster: mixed-precision-unused, tensor-cores-unused, tf32-disabled.

Never two of them. Where nothing is multiplied in 16 bits on Ampere or newer, `mixed-precision-unused` reports products,
convolutions and attention in fp32 on one card, with TF32 as the second choice. Where a part is in 16 bits already,
`tf32-disabled` reports the products that are left in fp32. `tensor-cores-unused` is for older and unknown GPUs, and for
programs that enter autocast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape, roofline
from traceanalyzer.knowledge import kernel_names, op_models
from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.knowledge.op_models import Family
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import processor, program
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, Missing, page
from traceanalyzer.structure import host_activity

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
_MATRICES = frozenset({KernelClass.GEMM})
_OF_TENSOR_CORES = PRODUCTS | {KernelClass.ATTENTION}
_FAMILIES = frozenset({Family.GEMM, Family.CONVOLUTION})
_FURTHER = 1.1, 1.5
"""Least and greatest speedup in 16 bits of what uses Tensor Cores in fp32 already: convolutions in TF32, attention (own
choice: between a kernel that is bound by other things, and one that is bound by bytes and the exponentials of fp32)."""
_CODE_TRAINING = 'with torch.autocast("cuda", dtype=torch.bfloat16): loss = criterion(model(x), y)'
_CODE_INFERENCE = "model = model.to(torch.{kind})"

_NOT_NVIDIA = Text(
    "rule-no-tensor-core-names", "only names of NVIDIA's kernels show whether a matrix multiplication is in fp32"
)


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


class _Narrower(msgspec.Struct, frozen=True):
    """A type for products in fp32, and which of them it is for."""

    is_tf32: bool
    """Whether that is TF32, else half precision."""
    kinds: frozenset[KernelClass] = PRODUCTS
    """The classes of kernels that count."""
    least: float = _LEAST
    """Least speedup of a product."""

    def peak(self, facts: Facts) -> float | None:
        """Peak rate of the device in TFLOP/s; None if unknown."""
        if facts.gpu is None:
            return None
        return facts.gpu.tf32 if self.is_tf32 else facts.gpu.fp16

    def ratio(self, facts: Facts) -> float:
        """Greatest speedup of a product."""
        peak, fp32 = self.peak(facts), facts.gpu.fp32 if facts.gpu else None
        return max(_LEAST, min(_MOST, peak / fp32)) if peak and fp32 else _MOST

    def surely(self, facts: Facts) -> float:
        """Least speedup of a product: no more than the least of all where the device's rates differ by less."""
        return self.least if self.ratio(facts) >= _MOST else _LEAST


class _Fp32Work(msgspec.Struct, frozen=True):
    """Work in fp32, in all typical steps."""

    work: EventTimes
    saved: EventTimes
    """What a narrower type saves at most, of each set."""
    saved_ns: tuple[float, float]
    """What it saves at least and at most, of all."""
    shown: EventTimes
    """Where the work is, the longest first."""

    @classmethod
    def faster(cls, work: EventTimes, least: float, most: float, shown: EventTimes) -> _Fp32Work:
        """Work that all gets faster by the same factor, at least and at most."""
        saved_ns = (1 - 1 / least) * work.total_ns, (1 - 1 / most) * work.total_ns
        return cls(work, work.part(1 - 1 / most), saved_ns, shown)


def _mixed(facts: Facts, limits: Limits) -> Drafts:
    if not _precision(facts).is_fp32_only or program.searches(facts) is not None:
        return  # of algorithms that are tried out, most do not run at all without the search
    products = _fp32_products(facts, limits, _Narrower(is_tf32=False, least=_LEAST_MIXED))
    attention = _further(facts, limits, kernel_names.is_fp32_attention)
    tf32 = _further(facts, limits, kernel_names.is_tf32)
    every = _together(facts, (products, attention, tf32))
    if every.work.share <= limits["fp32_share"]:
        return
    of_products = _MIXED.text("of-convolutions") if _are_convolutions(facts) else _MIXED.text("of-products")
    texts = (
        (of_products, products),
        (_MIXED.text("of-attention"), attention),
        (_MIXED.text("of-tf32"), tf32),
    )
    told = tuple(text(time=part.work.time) for text, part in texts if part.work.total_ns)
    needs_tf32 = products.work.total_ns > 0 and not program.matmul_tf32(facts)
    second = _MIXED.text("second-tf32") if needs_tf32 else _MIXED.text("second-used")
    trains = program.may_train(facts)
    yield Draft(
        (_MIXED.evidence(limits, "fp32_share", every.work.share, every.shown.places),),
        every.saved.removed(every.saved_ns, _MIXED.text("basis")()),
        {**every.work.figures(), "parts": told, "second": second},
        advice=None if trains else _MIXED.text("advice-inference"),
        code=_CODE_TRAINING if trains else _CODE_INFERENCE.format(kind="bfloat16"),
    )


def _together(facts: Facts, parts: Sequence[_Fp32Work]) -> _Fp32Work:
    """Several kinds of work as one."""
    work, saved, shown = (
        EventTimes.on_device(facts, chain.from_iterable(times.ns.items() for times in kinds))
        for kinds in zip(*((part.work, part.saved, part.shown) for part in parts), strict=True)
    )
    least, most = (fsum(part.saved_ns[end] for part in parts) for end in (0, 1))
    return _Fp32Work(work, saved, (least, most), shown.longest_first)


def _unused(facts: Facts, limits: Limits) -> Drafts:
    used = _precision(facts)
    if used.is_fp32_only or used.is_a_switch or (used.capability is not None and used.capability < _VOLTA):
        return
    products = _fp32_products(facts, limits, _Narrower(is_tf32=False))
    if products.work.share <= limits["product_share"]:
        return
    summary, advice, code = _texts(facts, used)
    if not program.may_train(facts):
        advice, code = _of_inference(advice, code)
    yield Draft(
        (_UNUSED.evidence(limits, "product_share", products.work.share, products.shown.places),),
        products.saved.removed(products.saved_ns, _UNUSED.text("basis")()),
        products.work.figures(),
        confidence="C" if used.capability is None else None,
        title=_UNUSED.text("title-convolutions") if _are_convolutions(facts) else None,
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
    products = _fp32_products(facts, limits, _Narrower(is_tf32=True, kinds=_MATRICES))
    if products.work.share <= limits["product_share"]:
        return
    evidence = _TF32.evidence(limits, "product_share", products.work.share, products.shown.places)
    change = products.saved.removed(products.saved_ns, _TF32.text("basis")())
    yield Draft((evidence,), change, products.work.figures())


def _precision(facts: Facts) -> _Precision:
    """How products are computed.

    Raises:
        Missing: There are no kernels, or the GPU is not NVIDIA's.
    """
    generation = capability(facts)
    products = [kernel for kernel in facts.kernels if kernel.kind in _OF_TENSOR_CORES]
    on_tensor_cores = sum(kernel.total_ns for kernel in products if kernel.tensor_cores)
    in_fp32 = sum(kernel.total_ns for kernel in products if kernel.tensor_cores and _is_further(kernel.name))
    fp32 = sum(kernel.total_ns for kernel in products if kernel_names.is_fp32(kernel.name, kernel.tensor_cores))
    limit = _USED * (on_tensor_cores + fp32)
    is_new = generation is not None and generation >= _AMPERE
    is_fp32_only = is_new and on_tensor_cores - in_fp32 <= limit and not program.uses_autocast(facts)
    return _Precision(generation, on_tensor_cores > limit, is_fp32_only)


def _is_further(kernel: str) -> bool:
    """Whether a kernel computes fp32 numbers on Tensor Cores."""
    return kernel_names.is_tf32(kernel) or kernel_names.is_fp32_attention(kernel)


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
    generations = (kernel_names.built_for(kernel.name) for kernel in facts.kernels)
    return max((number for number in generations if number is not None), default=None)


def _fp32_products(facts: Facts, limits: Limits, narrower: _Narrower) -> _Fp32Work:
    """Products that could get faster: bound neither by memory nor by their launch."""
    by_shape = facts.find("kernels_by_shape", KernelsByShape)
    if by_shape is None:
        return _by_kernel(facts, limits, narrower)
    flops_per_byte, least = processor.intensities(facts), limits["flops_per_byte"]
    rows = (
        row
        for row in by_shape.rows
        if row.kind in narrower.kinds
        and kernel_names.is_fp32(row.kernel, row.tensor_cores)
        and row.total_ns >= limits["kernel_ns"] * row.calls
        and flops_per_byte.get((row.operator, row.input_shapes), least) >= least
    )
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows)).longest_first
    measured = processor.roofline_rows(facts)
    most = {
        events: _most_ns(facts, measured.get((events.name, events.shapes or "")), ns, narrower)
        for events, ns in work.ns.items()
    }
    surely = 1 - 1 / narrower.surely(facts)
    least = fsum(min(most[events], surely * ns) for events, ns in work.ns.items())
    return _Fp32Work(work, EventTimes.on_device(facts, most.items()), (least, fsum(most.values())), shown=work)


def _most_ns(facts: Facts, row: roofline.RooflineRow | None, time_ns: float, narrower: _Narrower) -> float:
    """Saving of a product by the ratio of the peak rates, within what peak rate and memory bandwidth allow."""
    most = (1 - 1 / narrower.ratio(facts)) * time_ns
    bandwidth = facts.gpu.bandwidth if facts.gpu else None
    peak = narrower.peak(facts)
    if row is None or row.bytes is None or not peak or not bandwidth:
        return most
    size = row.bytes if narrower.is_tf32 else row.bytes / 2
    bound = max(row.flops / peak / 1000, size / bandwidth) * time_ns / row.device_ns
    return min(most, max(0.0, time_ns - bound))


def _are_convolutions(facts: Facts) -> bool:
    """Whether most of the time of products in fp32 on ordinary cores is that of convolutions."""
    fp32 = [k for k in facts.kernels if k.kind in PRODUCTS and kernel_names.is_fp32(k.name, k.tensor_cores)]
    of_convolutions = sum(kernel.total_ns for kernel in fp32 if kernel.kind is KernelClass.CONVOLUTION)
    return 2 * of_convolutions > sum(kernel.total_ns for kernel in fp32)


def _further(facts: Facts, limits: Limits, is_wanted: Callable[[str], bool]) -> _Fp32Work:
    """Work in fp32 that uses Tensor Cores already, by the names of kernels."""
    kernels = [k for k in facts.kernels if is_wanted(k.name) and k.total_ns >= limits["kernel_ns"] * k.calls]
    work = EventTimes.on_device(facts, ((kernel.events, kernel.total_ns) for kernel in kernels))
    return _Fp32Work.faster(work, *_FURTHER, shown=work)


def _by_kernel(facts: Facts, limits: Limits, narrower: _Narrower) -> _Fp32Work:
    kernels = [k for k in facts.kernels if k.kind in narrower.kinds and kernel_names.is_fp32(k.name, k.tensor_cores)]
    kernels = [k for k in kernels if k.calls and k.total_ns >= limits["kernel_ns"] * k.calls]
    every = EventTimes.on_device(facts, ((kernel.events, kernel.total_ns) for kernel in kernels)).longest_first
    total = every.total_ns
    counted = min(total, _arithmetic(facts, limits, total))
    ratio = narrower.ratio(facts)
    work = EventTimes.on_device(facts, ((events, ns * counted / max(1.0, total)) for events, ns in every.ns.items()))
    return _Fp32Work.faster(work, narrower.surely(facts), ratio, shown=every)


def _arithmetic(facts: Facts, limits: Limits, otherwise: float) -> float:
    """Time of products that are not bound by memory, from a table with shapes, which links no kernels to products."""
    flops_per_byte = processor.intensities(facts)
    if not flops_per_byte:
        return otherwise
    limit = limits["flops_per_byte"]
    products = [row for row in facts.shaped if op_models.family(row.name) in _FAMILIES]
    return sum(
        row.device_self_ns for row in products if flops_per_byte.get((row.name, row.shapes or ""), limit) >= limit
    )


def computes(operator: str) -> bool:
    """Whether an operator computes, so that the precision of its inputs matters, and is no view of them."""
    return host_activity.is_computing(operator)


def is_other_vendor(facts: Facts) -> bool:
    """Whether the GPU is not NVIDIA's: those of AMD and Intel that PyTorch supports are built for fp64."""
    devices = facts.summary.devices if facts.summary else ()
    return any(device.vendor not in (None, "NVIDIA") for device in devices)


RULES = (
    _MIXED.rule(trace=_mixed, table=_mixed),
    _UNUSED.rule(trace=_unused, table=_unused),
    _TF32.rule(trace=_tf32_disabled, table=_tf32_disabled),
)
