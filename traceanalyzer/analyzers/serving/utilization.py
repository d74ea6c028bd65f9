"""Which share of the device's peak do the products of a typical step need (of matrices, convolutions, attention)?

The peak is dense, for the type and the units that each product ran with: the time that all products would take at their
peaks, over the time that the step takes. What repeats the forward pass counts in HFU only.

Nearly all operations of a network are products. Kernels that cannot contain products, by their operator or their name,
are left out; of the others, those count as covered whose operator's work follows from its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import fsum

import msgspec
import numpy as np

from traceanalyzer.analyzers.serving.batches import first_work, typical
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.knowledge.op_models import Work
from traceanalyzer.structure import operator_times
from traceanalyzer.structure.analysis import KERNELS, SHAPES
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import evaluations, owners
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

LEAST = 0.8
"""Share of the time in products that must be counted, or the figure would say more of the model than of the program."""
_PLAIN = frozenset(
    {
        KernelClass.NORMALIZATION,
        KernelClass.ELEMENTWISE,
        KernelClass.DEQUANTIZATION,
        KernelClass.REDUCTION,
        KernelClass.COPY,
        KernelClass.COMMUNICATION,
        KernelClass.OPTIMIZER,
    }
)
"""Classes of kernels without products."""
_PLAIN_TRITON = re.compile(r"triton_(poi|per|red|for)_")
"""Kernels that torch.compile generates without a product."""
"""Functions of autograd that repeat a part of the forward pass before they differentiate it."""


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
    steps = context.cached(typical)
    obstacle = _obstacle(context)
    if obstacle is not None:
        return Utilization(None, None, None, None, None, None, 0, (), obstacle)
    found = context.cached(products)
    gpu = context.gpu
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
    if not context.cached(typical).length_ns:
        return "no-steps"
    if not KERNELS.is_met(context):
        return "no-kernels"
    return None if SHAPES.is_met(context) else "no-shapes"


def _unknown(products: Products, gpu: Gpu | None, coverage: float | None) -> str | None:
    """Why the share of the peak is unknown, or None."""
    if coverage is None:
        return "no-products"
    if coverage < LEAST:
        return "coverage"
    if gpu is None:
        return "device"
    rated = sum(call.device_ns for call in products.calls if _peak(call, gpu) is not None)
    return None if rated >= LEAST * products.possible_ns else "types"


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
    return fsum(call.calls * call.work.flops / peak / 1000 for call, peak in rated if peak)


def _flops(calls: Iterable[ProductCalls]) -> int:
    return sum(call.calls * call.work.flops for call in calls)


def _peaks(calls: tuple[ProductCalls, ...], gpu: Gpu | None, steps: int) -> tuple[PeakShare, ...]:
    kinds: dict[tuple[str | None, bool | None], list[ProductCalls]] = {}
    for call in calls:
        kinds.setdefault((call.work.dtype, call.matrix_units), []).append(call)
    rows = [PeakShare(*kind, _flops(own) / steps, _peak(own[0], gpu)) for kind, own in kinds.items()]
    return tuple(sorted(rows, key=lambda row: (-row.flops_per_step, str(row.dtype), str(row.matrix_units))))


class ProductCalls(msgspec.Struct, frozen=True):
    """Calls with equal work on equal units."""

    work: Work
    matrix_units: bool | None
    """Whether most of their time is in kernels on matrix units; None where the names of kernels do not show it."""
    is_repeated: bool
    """Whether they repeat the forward pass within the backward pass."""
    calls: int
    device_ns: int


class Products(msgspec.Struct, frozen=True):
    """Products of the typical steps."""

    calls: tuple[ProductCalls, ...]
    possible_ns: int
    """Time of all kernels that hold products, or may hold some."""
    device_ns: int
    """Time of all kernels, copies and fills."""
    devices: int
    """Number of devices that ran kernels."""


def products(context: Context) -> Products:
    """Find the products of the typical steps."""
    device = context.trace.device
    steps = context.cached(typical)
    counted = steps.at(device.start_ns) >= 0
    kernels = np.flatnonzero(counted & (device.category == Category.KERNEL))
    owner = _leaf(context)[kernels]
    in_family = context.trace.names.where(lambda name: op_models.family(name) in operator_times.PRODUCTS)
    is_product = take_or(in_family[context.host.name], owner, False)
    possible = is_product | ((owner == NO_PARENT) & _may_hold(context)[device.name[kernels]])
    return Products(
        calls=_calls(context, kernels[is_product], owner[is_product]),
        possible_ns=int(device.dur_ns[kernels[possible]].sum()),
        device_ns=int(device.dur_ns[counted].sum()),
        devices=len(distinct(device.device[kernels])),
    )


def _leaf(context: Context) -> I64:
    """For each device event, the modelled operator that launched it itself, or -1."""
    host = context.host
    node = context.links.device_node()
    own = take_or(host.top, node, NO_PARENT)
    return np.where(take_or(context.cached(operator_times.leaves), own, False), own, NO_PARENT)


def _may_hold(context: Context) -> Bool:
    """By the code of a kernel's name, whether it may hold products."""
    names = context.trace.names
    codes = distinct(context.trace.device.name)
    may_hold = np.zeros(len(names), np.bool_)
    for code in codes.tolist():
        may_hold[code] = kernel_class(names[code]) not in _PLAIN and not _PLAIN_TRITON.match(names[code])
    return may_hold


def _calls(context: Context, kernels: I64, owner: I64) -> tuple[ProductCalls, ...]:
    """Calls whose work begins in a typical step, by work and units."""
    if not len(kernels):
        return ()
    nodes = distinct(owner)
    works, _, work_of = operator_times.works_of(context, nodes)
    keys = (work_of, _units(context, kernels, owner)[nodes], context.cached(repeated)[nodes])
    first, groups = group(*keys)
    begins = context.cached(typical).at(first_work(context, nodes)) >= 0
    time = sum_by(owner, context.trace.device.dur_ns[kernels], len(context.host.tree))[nodes]
    columns = (*(key[first] for key in keys), count_by(groups[begins], len(first)), sum_by(groups, time, len(first)))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(_product_calls(works, *row) for row in rows if works[row[0]] is not None)


def _product_calls(
    works: Sequence[Work | None], number: int, unit: int, is_repeated: bool, calls: int, time: int
) -> ProductCalls:
    work = works[number]
    assert work is not None  # noqa: S101 - others are left out
    return ProductCalls(work, _ON_UNITS.get(unit), is_repeated, calls, time)


_ON_UNITS = {1: True, 0: False}
"""Whether a node's work is on matrix units, by what `_units` says."""


def _units(context: Context, kernels: I64, owner: I64) -> I64:
    """Whether most of the time of each node is in kernels on matrix units: 1, 0, or -1 where names do not show it."""
    device, names = context.trace.device, context.trace.names
    computes = _may_hold(context)[device.name[kernels]]
    kernels = kernels[computes]
    owner = owner[computes]
    codes, name = ranked(device.name[kernels])
    answers = [uses_tensor_cores(names[code]) for code in codes.tolist()]
    with_units = np.array([answer is True for answer in answers], np.bool_)[name]
    without = np.array([answer is False for answer in answers], np.bool_)[name]

    def time_by_node(chosen: Bool | slice) -> I64:
        return sum_by(owner[chosen], device.dur_ns[kernels[chosen]], len(context.host.tree))

    total = time_by_node(slice(None))
    is_off = np.where(2 * time_by_node(without) > total, 0, -1)
    return np.where(2 * time_by_node(with_units) > total, 1, is_off)


def repeated(context: Context) -> Bool:
    """Which nodes repeat a part of the forward pass within the backward pass, as activation checkpointing does.

    Operators of the forward pass have a number of autograd and no thread of a forward pass, even where autograd calls
    them. Gradients of gradients have, too, so that a call counts only within the function of a checkpoint, or where the
    same call was made outside of the backward pass.
    """
    host, table = context.host, context.trace.host
    plain = np.flatnonzero(host.kind != NodeKind.MODULE)
    row = host.row[plain]
    forward = np.zeros(len(host.tree), np.bool_)
    forward[plain] = (table.sequence[row] != UNKNOWN) & (table.forward_thread[row] <= 0)
    is_repeated = np.zeros(len(host.tree), np.bool_)
    evaluation = context.cached(owners).evaluation
    in_backward = evaluation != NO_PARENT
    is_evaluation = context.cached(evaluations)
    if not (forward & ~is_evaluation & in_backward).any():
        return is_repeated
    call = host.tree.nearest(forward | is_evaluation)
    call = np.where(take_or(forward & ~is_evaluation, call, False), call, NO_PARENT)
    nodes = np.flatnonzero(in_backward & (call != NO_PARENT))
    is_checkpoint = context.trace.names.where(_is_of_checkpoint)[host.name]
    first_made = np.flatnonzero(forward & ~in_backward)
    again = is_checkpoint[evaluation[nodes]] | _same(context, call[nodes].astype(np.int64), first_made)
    is_repeated[nodes[again]] = True
    return is_repeated


def _same(context: Context, nodes: I64, others: I64) -> Bool:
    """Which nodes have the name and the inputs of one of the others."""
    host, shapes = context.host, context.trace.host.shapes
    both = np.concatenate((nodes, others))
    _, kind = group(host.name[both], shapes[host.row[both]])
    return np.isin(kind[: len(nodes)], kind[len(nodes) :])


def _is_of_checkpoint(name: str) -> bool:
    """Whether it is the function of autograd that computes a checkpointed part again: `CheckpointFunctionBackward`."""
    return "Checkpoint" in name and "Backward" in name.partition("Checkpoint")[2]
