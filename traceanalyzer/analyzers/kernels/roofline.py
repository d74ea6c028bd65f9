"""How close do operators come to what the device can do?

For operators with a model in `knowledge.op_models`: the operations and bytes that follow from their inputs, divided by
the device time of the events that they launched themselves. If an operator calls another of the same family that
launched something (`layer_norm` and `native_layer_norm`), only the inner one counts, so that no work counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import gpus
from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.knowledge.op_models import Work
from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.operator_times import PRODUCTS, launched_by, leaves, node_times, works_of
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category


class Roof(msgspec.Struct, frozen=True):
    """The device whose peaks the shares refer to."""

    name: str
    """Name of the device as in the table of data sheets."""
    source: str
    """Document or setting that its figures come from."""
    bandwidth_gb_per_s: float | None
    """Peak bandwidth of its memory in 10^9 bytes per second."""


class RooflineRow(msgspec.Struct, frozen=True):
    """All calls of one operator with the same input shapes and types that put something on the device."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes as recorded, as JSON."""
    input_types: str
    """Input types as recorded, as JSON; empty where they were not recorded."""
    family: str
    """What the operator is: `gemm`, `convolution`, `attention`, `normalization`, `elementwise` or `reduction`."""
    calls: int
    """Number of calls that put something on the device."""
    device_ns: int
    """Device time in ns of what the operator itself launched, overlap or not."""
    flops: int
    """Floating-point operations of all calls together; a multiplication and an addition are two."""
    bytes: int | None
    """Bytes of operands and results of all calls, each once; null where types were not recorded."""
    flops_per_byte: float | None
    """Arithmetic intensity: operations per byte that must be moved; null where the bytes are unknown."""
    tflops_per_s: float
    """Achieved speed in 10^12 operations per second."""
    gb_per_s: float | None
    """Achieved traffic in 10^9 bytes per second; null where the bytes are unknown."""
    peak_tflops_per_s: float | None
    """Peak of the device for the operand type in 10^12 operations per second, on tensor cores if the kernels use them;
    null if unknown."""
    compute_share: float | None
    """Achieved speed over the peak (0 to 1); null if unknown."""
    bandwidth_share: float | None
    """Achieved traffic over the memory bandwidth; above 1 where operands stay in a cache; null if unknown."""
    roofline_share: float | None
    """The least time that peak and bandwidth allow over the time taken (0 to 1); null if peak or bandwidth is unknown
    (of families other than products the peak may be: they move bytes)."""
    bound: str | None
    """What limits the operator, `compute` or `memory`; null if the share is null."""

    @property
    def events(self) -> EventSet:
        """The calls as a set of events."""
        return EventSet.operator(self.name, self.input_shapes)


class Roofline(msgspec.Struct, frozen=True):
    """Operators that have a model, the one with the most device time first."""

    roof: Roof | None
    """Peak speeds of the device; null where the trace names no known device, or several."""
    rows: tuple[RooflineRow, ...]
    """One row per operator, shapes and types that has a model, the most device time first."""
    modelled_ns: int
    """Device time of these rows in ns."""
    modelled_share: float | None
    """Share of the device time of all kernels, copies and fills that the rows explain (0 to 1); null if that is 0."""


def analyze(context: Context) -> Roofline:
    """One row per modelled operator, input shapes and input types."""
    gpu = context.gpu
    device = context.trace.device
    counted = device_events_in_scope(context)
    total = int(device.dur_ns[counted].sum())
    rows = sorted(_rows(context, gpu), key=lambda r: (-r.device_ns, r.name, r.input_shapes, r.input_types))
    modelled = sum(row.device_ns for row in rows)
    return Roofline(
        roof=None if gpu is None else Roof(gpu.name, gpu.source, gpu.bandwidth),
        rows=tuple(rows),
        modelled_ns=modelled,
        modelled_share=modelled / total if total else None,
    )


class _Group(msgspec.Struct, frozen=True):
    """Calls with equal inputs."""

    work: Work
    """Operations and bytes of one call."""
    calls: int
    device_ns: int
    matrix_unit_ns: int
    """Share of the device time in kernels whose names show that they use matrix units."""
    untold_unit_ns: int
    """Share of the device time in kernels whose names do not show whether they use matrix units."""


def _rows(context: Context, gpu: gpus.Gpu | None) -> list[RooflineRow]:
    """Calls with equal inputs share a model; a row joins those that differ in strides and values only."""
    trace = context.trace
    joined: dict[tuple[int, int, int], list[_Group]] = {}
    for key, members in _groups(context):
        joined.setdefault(key, []).append(members)
    rows = []
    for (name, shapes, types), groups in joined.items():
        inputs = (trace.names[name], trace.shapes[shapes], trace.types[types])
        rows.append(_row(inputs, groups, gpu))
    return rows


def _groups(context: Context) -> Iterator[tuple[tuple[int, int, int], _Group]]:
    """The calls with a model by their inputs, each with the codes of operator, shapes and types."""
    host, table = context.host, context.trace.host
    nodes = np.flatnonzero(context.cached(leaves))
    works, first, groups = works_of(context, nodes)
    call = host.row[nodes[first]]
    keys = zip(
        *(codes.tolist() for codes in (host.name[nodes[first]], table.shapes[call], table.types[call])), strict=True
    )
    columns = (
        context.calls_of(nodes),
        context.cached(node_times).device_self_ns[nodes],
        _unit_times(context, True)[nodes],
        _unit_times(context, None)[nodes],
    )
    figures = np.column_stack([sum_by(groups, column, len(first)) for column in columns])
    for work, key, measured in zip(works, keys, figures.tolist(), strict=True):
        if work is not None:
            yield key, _Group(work, *measured)


def _unit_times(context: Context, answer: bool | None) -> I64:
    """For each node, the time of its own kernels whose names give this answer to whether they use tensor cores."""
    device, names = context.trace.device, context.trace.names
    kernels = np.flatnonzero(device.category == Category.KERNEL)
    codes, kernel = ranked(device.name[kernels])
    used = np.array([uses_tensor_cores(names[code]) is answer for code in codes.tolist()], np.bool_)
    answering, node = launched_by(context, kernels[used[kernel]])
    return sum_by(node, device.dur_ns[answering], len(context.host.tree))


def _row(key: tuple[str, str, str], members: list[_Group], gpu: gpus.Gpu | None) -> RooflineRow:
    family = members[0].work.family
    time = sum(member.device_ns for member in members)
    flops = sum(member.calls * member.work.flops for member in members)
    moved = _bytes(members)
    peak = _peak(members, time, gpu) if gpu else None
    compute = flops / time / 1000 / peak if peak else None  # operations per ns are 10^9 per second
    bandwidth = moved / time / gpu.bandwidth if gpu and gpu.bandwidth and moved is not None else None
    share, bound = _roofline(compute if family in PRODUCTS else compute or 0, bandwidth)
    return RooflineRow(
        *key,
        family=family.value,
        calls=sum(member.calls for member in members),
        device_ns=time,
        flops=flops,
        bytes=moved,
        flops_per_byte=flops / moved if moved else None,
        tflops_per_s=flops / time / 1000,
        gb_per_s=None if moved is None else moved / time,
        peak_tflops_per_s=peak,
        compute_share=compute,
        bandwidth_share=bandwidth,
        roofline_share=share,
        bound=bound,
    )


def _bytes(members: list[_Group]) -> int | None:
    """The bytes that all calls move at least; None if those of some are unknown."""
    sizes = [member.calls * member.work.bytes for member in members if member.work.bytes is not None]
    return sum(sizes) if len(sizes) == len(members) else None


def _peak(members: list[_Group], time: int, gpu: gpus.Gpu) -> float | None:
    """The peak for the units that most of the time is on; None if that matters and names of kernels do not show it."""
    family = members[0].work.family
    dtype = members[0].work.dtype
    at_least = sum(member.matrix_unit_ns for member in members)
    at_most = at_least + sum(member.untold_unit_ns for member in members)
    peaks = {gpu.peak(dtype, matrix=family in PRODUCTS, tensor_cores=2 * on > time) for on in (at_least, at_most)}
    return peaks.pop() if len(peaks) == 1 else None


def _roofline(compute: float | None, bandwidth: float | None) -> tuple[float | None, str | None]:
    if bandwidth is None or compute is None:
        return None, None
    return max(compute, bandwidth), "compute" if compute > bandwidth else "memory"


ANALYSES = (Analysis(280, "roofline", Roofline, analyze, needs=(KERNELS, SHAPES), is_of_steps=True),)
JOINED = (Analysis(40, "joined_roofline", Roofline, analyze, ANALYSES[0].needs),)
