"""Which kernels cost most, and which operators launch them?

A kernel with fewer blocks than the device has multiprocessors leaves some of them empty, unless kernels of other
streams run beside it. Its fill is the mean, while it runs, of the share of multiprocessors that the blocks of all
running kernels can fill: min(1, sum of their blocks per multiprocessor), as in est. SM efficiency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_classes import generated, kernel_class
from traceanalyzer.knowledge.kernel_names import is_communication, uses_tensor_cores
from traceanalyzer.report.message import Text
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.operator_times import launched_by
from traceanalyzer.structure.resources import recorded
from traceanalyzer.structure.sums import count_by, group, least_by, members, most_by, sum_by
from traceanalyzer.trace.model import KernelSource, Trace
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Array, Bool, take_or
from traceanalyzer.trace.tables import Category, DeviceEvents
from traceanalyzer.trace.tree import NO_PARENT

_MOST_BY_SHAPE = 500
"""Rows by shape in the result (own choice: real models launch a few hundred combinations; the rest is one sum)."""
_MOST_UNFILLED = 100
"""Rows of kernels that leave multiprocessors empty (own choice: more than people read)."""
_Figures = tuple[int, int, float, int, int, float | None, float | None]
"""Calls, total, mean, min and max in ns, blocks per SM, occupancy."""


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


class Kernels(msgspec.Struct, frozen=True):
    """All kernels of the trace by name."""

    rows: tuple[Kernel, ...]
    """One row per kernel name, the most time first."""
    in_steps: tuple[Kernel, ...] | None = None
    """The same of what starts in typical steps; null where everything does, and in reports of old versions."""


class KernelsByOperator(msgspec.Struct, frozen=True):
    """Kernels by name, operator and launch configuration."""

    rows: tuple[KernelByOperator, ...]
    """One row per kernel, operator and launch configuration, the most time first."""
    unattributed_ns: int
    """Kernel time in ns that belongs to no operator: without a launch event, or launched outside every operator."""


def by_name(context: Context) -> Kernels:
    """One row per kernel."""
    return Kernels(*typical.beside(context, _rows_by_name))


def _rows_by_name(context: Context) -> tuple[Kernel, ...]:
    rows = counted(context)
    kernels, names = context.trace.device.take(rows), context.trace.names
    first, groups = group(kernels.name)
    sources, nodes = _sources(context, rows, groups, len(first)), _graph_nodes(kernels, groups, len(first))
    figures = _figures(kernels, groups, len(first))
    earlier = ~recorded(context)[rows]
    calls = count_by(groups[earlier], len(first)).tolist()
    times = sum_by(groups[earlier], kernels.dur_ns[earlier], len(first)).tolist()
    found = [
        _row(names[name], values, source, number, (before, time))
        for name, values, source, number, before, time in zip(
            kernels.name[first].tolist(), figures, sources, nodes, calls, times, strict=True
        )
    ]
    return tuple(sorted(found, key=lambda k: (-k.total_ns, k.name)))


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


def _sources(context: Context, kernels: I64, groups: I64, count: int) -> list[KernelSource]:
    """The source of each group of kernels: of the first that has one, from the operator that launched it."""
    node, host = context.links.device_node()[kernels], context.host
    is_frame = take_or(host.category, node, Category.FRAME) == Category.FRAME  # a row of another table
    own = take_or(context.trace.host.source, np.where(is_frame, UNKNOWN, take_or(host.row, node, UNKNOWN)), 0)
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
    trace, rows = context.trace, counted(context)
    kernels, node = trace.device.take(rows), context.links.device_node()[rows]
    operator = np.where(node == NO_PARENT, -1, take_or(context.host.name, node, -1))
    keys = (kernels.name, operator, kernels.grid, kernels.block, kernels.registers, kernels.shared_memory)
    first, groups = group(*keys)
    figures = _figures(kernels, groups, len(first))
    found = [
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
    return KernelsByOperator(tuple(sorted(found, key=_order)), int(kernels.dur_ns[node == NO_PARENT].sum()))


def counted(context: Context) -> I64:
    """Rows of the device table that are kernels and start in the chosen steps, or anywhere without a choice."""
    device = context.trace.device
    return np.flatnonzero((device.category == Category.KERNEL) & context.in_scope(device.start_ns))


def _order(row: KernelByOperator) -> tuple[object, ...]:
    numbers = row.registers_per_thread or -1, row.shared_memory_bytes or -1
    return (-row.total_ns, row.name, row.operator or "", row.grid, row.block, *numbers)


def _figures(kernels: DeviceEvents, groups: I64, count: int) -> list[_Figures]:
    """Calls, total, mean, min, max, blocks per SM and occupancy of each group."""
    dur = kernels.dur_ns
    calls, total = count_by(groups, count), sum_by(groups, dur, count)
    occupancy = np.where(kernels.occupancy >= 0, kernels.occupancy / 100, np.nan)
    return list(
        zip(
            calls.tolist(),
            total.tolist(),
            (total / np.maximum(calls, 1)).tolist(),
            least_by(groups, dur, count).tolist(),
            most_by(groups, dur, count).tolist(),
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


class KernelByShape(msgspec.Struct, frozen=True):
    """All launches of one kernel by one operator with the same inputs."""

    kernel: str
    """Name of the kernel as recorded, template arguments included."""
    operator: str
    """Name of the innermost operator around the launch."""
    input_shapes: str
    """Input shapes of the operator as recorded, as JSON; empty where it has none."""
    input_types: str
    """Input types of the operator as recorded, as JSON; empty where it has none."""
    calls: int
    """Number of launches of the kernel."""
    total_ns: int
    """Sum of the durations in ns, overlap counted twice."""
    tensor_cores: bool | None
    """Whether the kernel uses matrix units, by its name; null if the name does not show it."""

    @property
    def events(self) -> EventSet:
        """The calls of the operator as a set of events."""
        return EventSet.operator(self.operator, self.input_shapes)


class KernelsByShape(msgspec.Struct, frozen=True):
    """Kernels by name, operator and inputs of the operator."""

    rows: tuple[KernelByShape, ...]
    """The rows with the most time, the most first; the list ends at a limit."""
    rest_ns: int
    """Kernel time in ns that is in no row."""


def by_shape(context: Context) -> KernelsByShape:
    """One row per kernel, operator, input shapes and input types."""
    trace, host = context.trace, context.host
    device, names = trace.device, trace.names
    kernels = counted(context)
    total = int(device.dur_ns[kernels].sum())
    kernels, node = launched_by(context, kernels)
    row = host.row[node]
    keys = (device.name[kernels], host.name[node], trace.host.shapes[row], trace.host.types[row])
    first, groups = group(*keys)
    times = sum_by(groups, device.dur_ns[kernels], len(first))
    figures = np.column_stack((*(key[first] for key in keys), count_by(groups, len(first)), times))
    rows = [
        KernelByShape(
            kernel=names[kernel],
            operator=names[operator],
            input_shapes=trace.shapes[shapes],
            input_types=trace.types[types],
            calls=calls,
            total_ns=time,
            tensor_cores=uses_tensor_cores(names[kernel]),
        )
        for kernel, operator, shapes, types, calls, time in figures[
            np.argsort(-times, kind="stable")[:_MOST_BY_SHAPE]
        ].tolist()
    ]
    rows.sort(key=lambda r: (-r.total_ns, r.kernel, r.operator, r.input_shapes, r.input_types))
    return KernelsByShape(tuple(rows), total - sum(r.total_ns for r in rows))


class UnfilledKernel(msgspec.Struct, frozen=True):
    """All launches of one kernel by one operator with one grid of fewer blocks than multiprocessors."""

    kernel: str
    """Name of the kernel as recorded, template arguments included."""
    operator: str | None
    """Name of the innermost operator around the launch; null if there is none."""
    grid: str
    """Blocks in x, y and z as recorded, as JSON."""
    calls: int
    """Number of launches."""
    total_ns: int
    """Sum of the durations in ns, overlap counted twice."""
    blocks_per_sm: float
    """Mean number of blocks per multiprocessor, weighted by duration; below 1."""
    fill: float
    """Share of the multiprocessors (0 to 1) that it and what ran beside it could fill, weighted by duration."""

    @property
    def events(self) -> EventSet:
        """All runs of the kernel as a set of events."""
        return EventSet.kernel(self.kernel)


class SmFill(msgspec.Struct, frozen=True):
    """Kernels with less than one block per multiprocessor, those with the most time first; no collectives."""

    rows: tuple[UnfilledKernel, ...]
    """Kernels with less than one block per multiprocessor, without collectives, the most time first; the list ends at a
    limit."""
    total_ns: int
    """Time in ns of all kernels with known blocks per multiprocessor, overlap counted twice."""


def sm_fill(context: Context) -> SmFill:
    """One row per kernel, operator and grid that leaves multiprocessors empty by itself."""
    trace, device = context.trace, context.trace.device
    known = _known(device) & (device.dur_ns > 0)
    fill = _fill(device.start_ns, device.dur_ns, device.blocks_per_sm, np.where(known, device.device, -1))
    communicates = trace.names.where(is_communication)[device.name]
    known &= context.in_scope(device.start_ns)
    rows = np.flatnonzero(known & (device.blocks_per_sm < 1) & ~communicates)
    node = context.links.device_node()[rows]
    operator = np.where(node == NO_PARENT, -1, take_or(context.host.name, node, -1))
    keys = (device.name[rows], operator, device.grid[rows])
    first, groups = group(*keys)
    weights = device.dur_ns[rows]
    time = sum_by(groups, weights, len(first))
    figures = (
        count_by(groups, len(first)),
        time,
        np.bincount(groups, weights=weights * device.blocks_per_sm[rows], minlength=len(first)) / time,
        np.bincount(groups, weights=weights * fill[rows], minlength=len(first)) / time,
    )
    unfilled = [
        UnfilledKernel(*key, *of_group)
        for key, *of_group in zip(_named(trace, keys, first), *(column.tolist() for column in figures), strict=True)
    ]
    unfilled.sort(key=lambda row: (-row.total_ns, row.kernel, row.operator or "", row.grid))
    return SmFill(tuple(unfilled[:_MOST_UNFILLED]), int(device.dur_ns[known].sum()))


def _named(trace: Trace, keys: tuple[Array, Array, Array], first: I64) -> list[tuple[str, str | None, str]]:
    """The kernel, operator and grid of each group, by their codes in its first row."""
    codes = zip(*(key[first].tolist() for key in keys), strict=True)
    return [(trace.names[name], trace.names[op] if op >= 0 else None, trace.dims[grid]) for name, op, grid in codes]


@event_set
def unfilled_at(context: Context, rows: tuple[UnfilledKernel, ...]) -> Iterator[Occurrences]:
    """When some of these kernels run."""
    trace, device = context.trace, context.trace.device
    wanted = {(row.kernel, row.operator, row.grid) for row in rows}
    kernels = np.flatnonzero(_known(device) & (device.blocks_per_sm < 1))
    kernels = kernels[trace.names.where({kernel for kernel, _, _ in wanted}.__contains__)[device.name[kernels]]]
    node = context.links.device_node()[kernels]
    keys = device.name[kernels], take_or(context.host.name, node, -1), device.grid[kernels]
    first, groups = group(*keys)
    is_wanted = np.array([key in wanted for key in _named(trace, keys, first)], np.bool_)
    yield Occurrences.on_device(context, next(iter(rows)).kernel, kernels[is_wanted[groups]])


def _known(device: DeviceEvents) -> Bool:
    """Kernels of which the blocks are known, and on which device they met others."""
    known: Bool = (device.category == Category.KERNEL) & (device.blocks_per_sm > 0) & (device.device != UNKNOWN)
    return known


def _fill(start: I64, dur: I64, blocks: F64, number: I64) -> F64:
    """For each kernel, the mean of min(1, blocks per multiprocessor of all that run) while it runs; NaN without one."""
    fill = np.full(len(start), np.nan)
    blocks = np.minimum(blocks, 1)  # more fill no more, and absurd ones would swallow the others in the sums
    known = np.flatnonzero(number >= 0)
    for _, own in members(number[known]):
        rows = known[own]
        begin, end = start[rows], start[rows] + dur[rows]
        times = np.concatenate((begin, end))
        order = np.argsort(times, kind="stable")
        times, load = times[order], np.cumsum(np.concatenate((blocks[rows], -blocks[rows]))[order])
        filled = np.minimum(load[:-1], 1) * np.diff(times)
        until = np.concatenate(([0.0], np.cumsum(filled)))
        fill[rows] = (until[np.searchsorted(times, end)] - until[np.searchsorted(times, begin)]) / dur[rows]
    return fill


_BLOCKS = Need(
    Text("skip-no-blocks-per-sm", "no kernel has a recorded number of blocks per multiprocessor"),
    lambda context: _known(context.trace.device).any(),
)
_KERNELS_BY_SHAPE_QUESTION = "Which kernel does an operator launch for which inputs?"
_SM_FILL_QUESTION = "Which kernels leave multiprocessors without a block?"
ANALYSES = (
    Analysis(120, "kernels", Kernels, by_name, needs=(KERNELS,)),
    Analysis(360, "kernels_by_operator", KernelsByOperator, by_operator, needs=(KERNELS,)),
    Analysis(
        370,
        "kernels_by_shape",
        KernelsByShape,
        by_shape,
        needs=(KERNELS, SHAPES),
        is_of_steps=True,
        question=_KERNELS_BY_SHAPE_QUESTION,
    ),
    Analysis(390, "sm_fill", SmFill, sm_fill, needs=(_BLOCKS,), is_of_steps=True, question=_SM_FILL_QUESTION),
)
JOINED = (Analysis(50, "joined_kernels_by_operator", KernelsByOperator, by_operator, needs=(KERNELS,)),)
