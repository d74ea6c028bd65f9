"""Which kernels cost most, and which operators launch them?"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_classes import generated, kernel_class
from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.structure.analysis import KERNELS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.resources import recorded
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.model import KernelSource
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tables import Category, DeviceEvents
from traceanalyzer.trace.tree import NO_PARENT


class Kernel(msgspec.Struct, frozen=True):
    """All launches of one kernel, by name, that start in the chosen steps or, without a choice, anywhere."""

    name: str
    """Name of the kernel as recorded, template arguments included."""
    calls: int
    """Number of launches, whoever launched them."""
    total_ns: int
    """Sum of the durations in ns, overlap counted twice."""
    mean_ns: float
    """Mean duration in ns."""
    min_ns: int
    """Shortest duration in ns."""
    max_ns: int
    """Longest duration in ns."""
    mean_blocks_per_sm: float | None
    """Mean number of blocks per multiprocessor, weighted by duration; null where the trace has no figure (ROCm, graphs,
    older CUPTI)."""
    mean_est_achieved_occupancy: float | None
    """Mean of the estimated occupancy (0 to 1), weighted by duration; null where the trace has no figure."""
    tensor_cores: bool | None
    """Whether the kernel uses matrix units, by its name; null if the name does not show it."""
    kernel_class: str | None = None
    """What the kernel does, one of the classes of `kernel_classes`; null in reports of older versions."""
    generated_kind: str | None = None
    """What kind of kernel the compiler made, as Inductor names it: `pointwise`, `reduction`, `persistent reduction`,
    `template`, `foreach` or `split scan`; null for all other kernels."""
    fused_operators: tuple[str, ...] = ()
    """The operators that Inductor fused in the kernel, by its name; empty for all other kernels."""
    backend: str | None = None
    """Generator of the kernel, from the operator that launches it; null if the operator does not have it."""
    source_file: str | None = None
    """Path of the file that was generated for it; null where the trace has none."""
    source_hash: str | None = None
    """Hash of the generated code; null where the trace has none."""
    graph_nodes: int | None = None
    """Number of nodes of graphs that run it; null where the trace has no ids of nodes."""
    earlier_calls: int = 0
    """Number of these launches that were not recorded, so that they most likely belong to work from before the
    recording; 0 where most launches were not recorded."""
    earlier_ns: int = 0
    """Sum of their durations in ns."""


class KernelByOperator(msgspec.Struct, frozen=True):
    """All launches of one kernel by one operator with one configuration."""

    name: str
    """Name of the kernel as recorded, template arguments included."""
    operator: str | None
    """The innermost operator, annotation or step around the launch; null if there is none."""
    grid: str
    """Blocks in x, y and z as recorded, as JSON; empty where they were not recorded."""
    block: str
    """Threads of a block in x, y and z as recorded, as JSON; empty where they were not recorded."""
    registers_per_thread: int | None
    """Registers that each thread uses; null where they were not recorded."""
    shared_memory_bytes: int | None
    """Shared memory of a block in bytes; null where it was not recorded."""
    calls: int
    """Number of launches."""
    total_ns: int
    """Sum of the durations in ns, overlap counted twice."""
    mean_ns: float
    """Mean duration in ns."""
    min_ns: int
    """Shortest duration in ns."""
    max_ns: int
    """Longest duration in ns."""
    mean_blocks_per_sm: float | None
    """Mean number of blocks per multiprocessor, weighted by duration; null where the trace has no figure."""
    mean_est_achieved_occupancy: float | None
    """Mean of the estimated occupancy (0 to 1), weighted by duration; null where the trace has no figure."""


_Figures = tuple[int, int, float, int, int, float | None, float | None]
"""Calls, total, mean, min and max in ns, blocks per SM, occupancy."""


class Kernels(msgspec.Struct, frozen=True):
    """All kernels of the trace by name."""

    rows: tuple[Kernel, ...]
    """One row per kernel name, the most time first."""


class KernelsByOperator(msgspec.Struct, frozen=True):
    """Kernels by name, operator and launch configuration."""

    rows: tuple[KernelByOperator, ...]
    """One row per kernel, operator and launch configuration, the most time first."""
    unattributed_ns: int
    """Kernel time in ns that belongs to no operator: without a launch event, or launched outside every operator."""


def by_name(context: Context) -> Kernels:
    """One row per kernel."""
    kernels, names = _kernels(context), context.trace.names
    first, groups = group(kernels.name)
    sources, nodes = _sources(context, kernels, groups, len(first)), _graph_nodes(kernels, groups, len(first))
    figures = _figures(kernels, groups, len(first))
    earlier = ~recorded(context)[_counted(context)]
    calls = count_by(groups[earlier], len(first)).tolist()
    times = sum_by(groups[earlier], kernels.dur_ns[earlier], len(first)).tolist()
    rows = [
        _row(names[name], values, source, number, (before, time))
        for name, values, source, number, before, time in zip(
            kernels.name[first].tolist(), figures, sources, nodes, calls, times, strict=True
        )
    ]
    return Kernels(tuple(sorted(rows, key=lambda k: (-k.total_ns, k.name))))


def _row(name: str, figures: _Figures, source: KernelSource, nodes: int | None, earlier: tuple[int, int]) -> Kernel:
    made = generated(name)
    kind, operators = (None, ()) if made is None else (made.kind, made.operators)
    return Kernel(
        name,
        *figures,
        uses_tensor_cores(name),
        kernel_class=kernel_class(name).value,
        generated_kind=kind,
        fused_operators=operators,
        backend=source.backend or None,
        source_file=source.file or None,
        source_hash=source.hash or None,
        graph_nodes=nodes,
        earlier_calls=earlier[0],
        earlier_ns=earlier[1],
    )


def _sources(context: Context, kernels: DeviceEvents, groups: I64, count: int) -> list[KernelSource]:
    """The source of each group of kernels: of the first that has one, from the operator that launched it."""
    host = context.host
    node = context.links.device_node()[_counted(context)]
    row = np.where(host.category == Category.FRAME, UNKNOWN, host.row)  # rows of another table
    own = entries(entries(context.trace.host.source, row, 0), node, 0)
    told = np.flatnonzero(own > 0)[::-1]
    found = np.zeros(count, np.int64)
    found[groups[told]] = own[told]
    return [context.trace.sources[code] for code in found.tolist()]


def _graph_nodes(kernels: DeviceEvents, groups: I64, count: int) -> list[int | None]:
    """How many nodes of graphs run each group of kernels; None for groups without a known node."""
    known = np.flatnonzero(kernels.graph_node != UNKNOWN)
    first, _ = group(groups[known], kernels.graph[known], kernels.graph_node[known])
    return [number or None for number in count_by(groups[known[first]], count).tolist()]


def by_operator(context: Context) -> KernelsByOperator:
    """One row per kernel, operator and launch configuration."""
    trace, kernels = context.trace, _kernels(context)
    node = context.links.device_node()[_counted(context)]
    operator = np.where(node == NO_PARENT, -1, entries(context.host.name, node, -1))
    keys = (kernels.name, operator, kernels.grid, kernels.block, kernels.registers, kernels.shared_memory)
    first, groups = group(*keys)
    figures = _figures(kernels, groups, len(first))
    rows = [
        KernelByOperator(
            trace.names[name],
            trace.names[op] if op >= 0 else None,
            trace.dims[grid],
            trace.dims[block],
            registers if registers >= 0 else None,
            shared if shared >= 0 else None,
            *values,
        )
        for (name, op, grid, block, registers, shared), values in zip(
            np.column_stack([k[first] for k in keys]).tolist(), figures, strict=True
        )
    ]
    return KernelsByOperator(tuple(sorted(rows, key=_order)), int(kernels.dur_ns[node == NO_PARENT].sum()))


def _kernels(context: Context) -> DeviceEvents:
    return context.trace.device.take(_counted(context))


def _counted(context: Context) -> Bool:
    device = context.trace.device
    counted: Bool = (device.category == Category.KERNEL) & context.in_scope(device.start_ns)
    return counted


def _order(row: KernelByOperator) -> tuple[object, ...]:
    return (
        -row.total_ns,
        row.name,
        row.operator or "",
        row.grid,
        row.block,
        row.registers_per_thread or -1,
        row.shared_memory_bytes or -1,
    )


def _figures(kernels: DeviceEvents, groups: I64, count: int) -> list[_Figures]:
    """Calls, total, mean, min, max, blocks per SM and occupancy of each group."""
    dur = kernels.dur_ns
    calls, total = count_by(groups, count), sum_by(groups, dur, count)
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, groups, dur)
    np.maximum.at(most, groups, dur)
    occupancy = np.where(kernels.occupancy >= 0, kernels.occupancy / 100, np.nan)
    return list(
        zip(
            calls.tolist(),
            total.tolist(),
            (total / np.maximum(calls, 1)).tolist(),
            least.tolist(),
            most.tolist(),
            _weighted(groups, kernels.blocks_per_sm, dur, count),
            _weighted(groups, occupancy, dur, count),
            strict=True,
        )
    )


def _weighted(groups: I64, values: F64, dur: I64, count: int) -> list[float | None]:
    """Means weighted by duration over the rows that have a value; None for groups without any."""
    known = ~np.isnan(values)
    weight = np.bincount(groups[known], weights=dur[known], minlength=count)
    with np.errstate(over="ignore"):  # a damaged file may contain any value
        summed = np.bincount(groups[known], weights=values[known] * dur[known], minlength=count)
    pairs = zip(summed.tolist(), weight.tolist(), strict=True)
    return [s / w if w and math.isfinite(s) else None for s, w in pairs]


ANALYSES = (
    Analysis(120, "kernels", Kernels, by_name, needs=(KERNELS,)),
    Analysis(360, "kernels_by_operator", KernelsByOperator, by_operator, needs=(KERNELS,)),
)
