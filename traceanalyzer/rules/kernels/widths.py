"""Detects a large product that is computed in a wider type than the other products of its model: product-left-wide."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from traceanalyzer.analyzers.kernels import roofline
from traceanalyzer.knowledge import kernel_names
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.rule import Draft, Drafts, EventSet, Facts, Limits, page

_WIDE = page("product-left-wide")
_NARROW = ("c10::BFloat16", "c10::Half")
_HALF = 0.5
"""Part of the time that is saved where only the bytes are known: 16 bits are half of 32."""
_MOST = 2 / 3
"""Greatest part that is saved: mixed precision is up to three times faster (PyTorch's tuning guide)."""
_LEAST = 0.5
"""Least part of that (own choice): factors must be converted first, or a part of the traffic stays as wide."""


class _Product(msgspec.Struct, frozen=True):
    """The calls of a product, by its shapes or by its kernel."""

    events: EventSet
    calls: int
    time_ns: int
    is_wide: bool
    """Whether its factors have 32 bits, else 16."""
    row: roofline.RooflineRow | None = None
    """What it computes and moves, where shapes were recorded."""


def _left_wide(facts: Facts, limits: Limits) -> Drafts:
    products = [*_by_shapes(facts)] or [*_by_names(facts)]
    wide = [product for product in products if product.is_wide]
    narrow = sum(product.calls for product in products) - sum(product.calls for product in wide)
    if not wide or narrow < limits["narrow_calls"] * sum(product.calls for product in wide):
        return
    large = [product for product in wide if product.time_ns >= limits["call_ns"] * product.calls]
    work = EventTimes.on_device(facts, ((product.events, product.time_ns) for product in large)).longest_first
    if work.share <= limits["gpu_share"]:
        return
    saved = EventTimes.on_device(facts, ((each.events, _part(facts, each.row) * each.time_ns) for each in large))
    change = saved.removed((_LEAST * saved.total_ns, saved.total_ns), _WIDE.text("basis")())
    evidence = _WIDE.evidence(limits, "gpu_share", work.share, work.places)
    yield Draft((evidence,), change, {**work.figures(), "product": next(iter(work.ns)).name})


def _by_shapes(facts: Facts) -> Iterator[_Product]:
    """Products of 32 and of 16 bits by operator and shapes."""
    measured = facts.find("roofline", roofline.Roofline)
    for row in measured.rows if measured else ():
        if row.family in ("gemm", "convolution"):
            kind = Inputs(row.input_shapes, row.input_types).type(0)
            if kind == "float" or kind in _NARROW:
                yield _Product(row.events, row.calls, row.device_ns, kind == "float", row)


def _by_names(facts: Facts) -> Iterator[_Product]:
    """The same by kernels, whose names show the type of many products."""
    for kernel in facts.kernels:
        if kernel.kind in (KernelClass.GEMM, KernelClass.CONVOLUTION):
            is_wide = kernel_names.is_fp32(kernel.name, kernel.tensor_cores) or kernel_names.is_tf32(kernel.name)
            if is_wide or kernel_names.is_half(kernel.name):
                yield _Product(kernel.events, kernel.calls, kernel.total_ns, is_wide)


def _part(facts: Facts, row: roofline.RooflineRow | None) -> float:
    """The part of a wide product's time that is saved at most in 16 bits, as near to its roof as it is now."""
    gpu = facts.gpu
    half = (gpu.bf16 or gpu.fp16) if gpu else None
    if row is None or gpu is None or not half or not gpu.bandwidth or not row.peak_tflops_per_s or row.bytes is None:
        return _HALF
    wide = max(row.flops / row.peak_tflops_per_s / 1000, row.bytes / gpu.bandwidth)
    narrow = max(row.flops / half / 1000, row.bytes / 2 / gpu.bandwidth)
    return min(_MOST, 1 - narrow / wide) if wide else _HALF


RULES = (_WIDE.rule(trace=_left_wide, table=_left_wide),)
