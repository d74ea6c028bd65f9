"""Which share of the device's peak do the products of a typical step need?

The peak is dense, for the type and the units that each product ran with: the time that all products would take at their
peaks, over the time that the step takes. What repeats the forward pass counts in HFU only.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from traceanalyzer.analyzers.serving.products import ProductCalls, Products, products
from traceanalyzer.analyzers.serving.typical import typical
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.structure.analysis import KERNELS, SHAPES
from traceanalyzer.structure.context import Context

LEAST = 0.8
"""Share of the time in products that must be counted, or the figure would say more of the model than of the program."""


class PeakShare(msgspec.Struct, frozen=True):
    """Products of one type on one kind of units."""

    dtype: str | None
    """Type of the operands as recorded; null where it was not recorded."""
    matrix_units: bool | None
    """Whether their kernels run on matrix units (tensor cores), by their names; null where these do not show it."""
    flops_per_step: float
    """Floating-point operations in a typical step, what is computed again included; a multiplication and an addition
    are two."""
    peak_tflops_per_s: float | None
    """Dense peak of one device for this type and these units in 10^12 operations per second; null if unknown."""


class Utilization(msgspec.Struct, frozen=True):
    """Time of products at the device's peak, and the share of products that is known."""

    mfu: float | None
    """Model FLOPs utilization (0 to 1): the time that the products of a typical step would take at the dense peak, over
    the time that it takes, without what the backward pass computes again. Null where `unknown` says why."""
    hfu: float | None
    """Hardware FLOPs utilization (0 to 1): the same with what the backward pass computes again, so never less."""
    model_flops_per_step: float | None
    """Floating-point operations of modelled products in a typical step, without what is computed again; null where
    none is modelled."""
    hardware_flops_per_step: float | None
    """The same with what the backward pass computes again; null if none is modelled."""
    coverage: float | None
    """Share (0 to 1) of the device time of kernels that hold products, or may hold some, whose operations are counted;
    null where there is no such kernel in a typical step."""
    products_share: float | None
    """Share (0 to 1) of all device time of typical steps that is in these counted products; null without device
    time."""
    devices: int
    """Number of devices that ran kernels in typical steps; the peak is that of all of them."""
    peaks: tuple[PeakShare, ...]
    """The counted products by type and units, the most operations first."""
    unknown: str | None
    """Why MFU and HFU are null: `no-steps`, `no-kernels`, `no-shapes`, `no-products`, `coverage` (too few products are
    counted), `device` (its peak is not in the table), `types` (types or units of too many products are unknown), or
    `above-peak` (the figure would exceed 100 %, so peak or model is wrong); null where they are known."""


def utilization(context: Context) -> Utilization:
    """Count the products of typical steps, and compare them with the peak."""
    steps = context.once(typical)
    obstacle = _obstacle(context)
    if obstacle is not None:
        return Utilization(None, None, None, None, None, None, 0, (), obstacle)
    found, gpu = context.once(products), context.gpu
    counted = sum(call.device_ns for call in found.calls)
    coverage = counted / found.possible_ns if found.possible_ns else None
    unknown = _unknown(found, gpu, coverage)
    wall = steps.length_ns * found.devices
    mfu = hfu = None
    if unknown is None and gpu is not None:
        hfu = _time_at_peak(found.calls, gpu) / wall
        mfu = _time_at_peak((call for call in found.calls if not call.is_repeated), gpu) / wall
        if hfu > 1:
            mfu, hfu, unknown = None, None, "above-peak"
    return Utilization(
        mfu=mfu,
        hfu=hfu,
        model_flops_per_step=_flops(call for call in found.calls if not call.is_repeated) / len(steps)
        if found.calls
        else None,
        hardware_flops_per_step=_flops(found.calls) / len(steps) if found.calls else None,
        coverage=coverage,
        products_share=counted / found.device_ns if found.device_ns else None,
        devices=found.devices,
        peaks=_peaks(found.calls, gpu, len(steps)),
        unknown=unknown,
    )


def _obstacle(context: Context) -> str | None:
    """What a trace lacks for counting products."""
    if not context.once(typical).length_ns:
        return "no-steps"
    if not KERNELS.is_met(context):
        return "no-kernels"
    return None if SHAPES.is_met(context) else "no-shapes"


def _unknown(found: Products, gpu: Gpu | None, coverage: float | None) -> str | None:
    """Why the share of the peak is unknown, or None."""
    if coverage is None:
        return "no-products"
    if coverage < LEAST:
        return "coverage"
    if gpu is None:
        return "device"
    rated = sum(call.device_ns for call in found.calls if _peak(call, gpu) is not None)
    return None if rated >= LEAST * found.possible_ns else "types"


def _peak(call: ProductCalls, gpu: Gpu | None) -> float | None:
    """Dense peak in TFLOP/s for the type and units of a product; None if it is unknown."""
    if gpu is None:
        return None
    dtype = call.work.dtype
    if dtype in ("float", "double") and call.matrix_units is None:
        return None
    if dtype == "float" and call.matrix_units and gpu.tf32 and gpu.fp32_matrix:
        return None  # such a device has both, and names of kernels do not show which one ran
    return gpu.peak(dtype, matrix=True, tensor_cores=call.matrix_units is True)


def _time_at_peak(calls: Iterable[ProductCalls], gpu: Gpu) -> float:
    """Nanoseconds that products would take at their peaks."""
    rated = ((call, _peak(call, gpu)) for call in calls)
    return sum(call.calls * call.work.flops / peak / 1000 for call, peak in rated if peak)


def _flops(calls: Iterable[ProductCalls]) -> int:
    return sum(call.calls * call.work.flops for call in calls)


def _peaks(calls: tuple[ProductCalls, ...], gpu: Gpu | None, steps: int) -> tuple[PeakShare, ...]:
    kinds: dict[tuple[str | None, bool | None], list[ProductCalls]] = {}
    for call in calls:
        kinds.setdefault((call.work.dtype, call.matrix_units), []).append(call)
    rows = [PeakShare(*kind, _flops(own) / steps, _peak(own[0], gpu)) for kind, own in kinds.items()]
    return tuple(sorted(rows, key=lambda row: (-row.flops_per_step, str(row.dtype), str(row.matrix_units))))
