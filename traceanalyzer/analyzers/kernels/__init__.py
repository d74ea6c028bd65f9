"""Which kernels cost most, and which operators launch them?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.kernels.figures import Figures, figures_of
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.kernel_classes import KernelClass, generated, kernel_class
from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.operator_times import launched_by
from traceanalyzer.structure.resources import recorded
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.model import KernelSource, Trace
from traceanalyzer.trace.table import I64, UNKNOWN, take_or
from traceanalyzer.trace.tables import Category, DeviceEvents
from traceanalyzer.trace.tree import NO_PARENT

_MOST_BY_SHAPE = 500
"""Rows by shape in the result (own choice: real models launch a few hundred combinations; the rest is one sum)."""


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

    @property
    def events(self) -> EventSet:
        """All runs of the kernel as a set of events."""
        return EventSet.kernel(self.name)


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
    kernels = context.trace.device.take(rows)
    first, groups = group(kernels.name)
    columns = zip(
        [context.trace.names[name] for name in kernels.name[first].tolist()],
        figures_of(kernels, groups, len(first)),
        _sources(context, rows, groups, len(first)),
        _graph_nodes(kernels, groups, len(first)),
        _not_recorded(context, rows, groups, len(first)),
        strict=True,
    )
    return tuple(
        sorted((_row(*of_kernel) for of_kernel in columns), key=lambda kernel: (-kernel.total_ns, kernel.name))
    )


def _not_recorded(context: Context, rows: I64, groups: I64, count: int) -> list[tuple[int, int]]:
    """Number and time of those launches of each group of kernels that were not recorded."""
    earlier = ~recorded(context)[rows]
    calls = count_by(groups[earlier], count)
    time = sum_by(groups[earlier], context.trace.device.dur_ns[rows[earlier]], count)
    return list(zip(calls.tolist(), time.tolist(), strict=True))


def _row(name: str, figures: Figures, source: KernelSource, nodes: int | None, earlier: tuple[int, int]) -> Kernel:
    made = generated(name)
    return Kernel(
        name,
        *figures,
        uses_tensor_cores(name),
        kernel_class=kernel_class(name).value,
        generated_kind=None if made is None else made.kind,
        fused_operators=() if made is None else made.operators,
        backend=source.backend or None,
        source_file=source.file or None,
        source_hash=source.hash or None,
        graph_nodes=nodes,
        earlier_calls=earlier[0],
        earlier_ns=earlier[1],
    )


def _sources(context: Context, kernels: I64, groups: I64, count: int) -> list[KernelSource]:
    """The source of each group of kernels: of the first that has one, from the operator that launched it."""
    host = context.host
    node = context.links.device_node()[kernels]
    is_frame = take_or(host.category, node, Category.FRAME) == Category.FRAME  # a row of another table
    row = np.where(is_frame, UNKNOWN, take_or(host.row, node, UNKNOWN))
    source = take_or(context.trace.host.source, row, 0)
    with_source = np.flatnonzero(source > 0)[::-1]
    of_group = np.zeros(count, np.int64)
    of_group[groups[with_source]] = source[with_source]  # of several, the last one written stays: the first kernel's
    return [context.trace.sources[code] for code in of_group.tolist()]


def _graph_nodes(kernels: DeviceEvents, groups: I64, count: int) -> list[int | None]:
    """How many nodes of graphs run each group of kernels; None for groups without a known node."""
    known = np.flatnonzero(kernels.graph_node != UNKNOWN)
    first, _ = group(groups[known], kernels.graph[known], kernels.graph_node[known])
    return [number or None for number in count_by(groups[known[first]], count).tolist()]


def by_operator(context: Context) -> KernelsByOperator:
    """One row per kernel, operator and launch configuration."""
    rows = counted(context)
    kernels = context.trace.device.take(rows)
    node = context.links.device_node()[rows]
    operator = np.where(node == NO_PARENT, -1, take_or(context.host.name, node, -1))
    keys = (kernels.name, operator, kernels.grid, kernels.block, kernels.registers, kernels.shared_memory)
    first, groups = group(*keys)
    codes = np.column_stack([key[first] for key in keys]).tolist()
    figures = figures_of(kernels, groups, len(first))
    by_configuration = [_configured(context.trace, *of_group) for of_group in zip(codes, figures, strict=True)]
    by_configuration.sort(key=_order)
    return KernelsByOperator(tuple(by_configuration), int(kernels.dur_ns[node == NO_PARENT].sum()))


def _configured(trace: Trace, codes: list[int], figures: Figures) -> KernelByOperator:
    name, operator, grid, block, registers, shared_memory = codes
    return KernelByOperator(
        trace.names[name],
        trace.names[operator] if operator >= 0 else None,
        trace.dims[grid],
        trace.dims[block],
        registers if registers >= 0 else None,
        shared_memory if shared_memory >= 0 else None,
        *figures,
    )


def counted(context: Context) -> I64:
    """Rows of the device table that are kernels and start in the chosen steps, or anywhere without a choice."""
    device = context.trace.device
    return np.flatnonzero((device.category == Category.KERNEL) & device_events_in_scope(context))


def _order(row: KernelByOperator) -> tuple[object, ...]:
    numbers = row.registers_per_thread or -1, row.shared_memory_bytes or -1
    return (-row.total_ns, row.name, row.operator or "", row.grid, row.block, *numbers)


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
    def kind(self) -> KernelClass:
        """What the kernel does, by its name."""
        return kernel_class(self.kernel)

    @property
    def inputs(self) -> Inputs:
        """The inputs of a call of the operator, as far as they are recorded."""
        return Inputs(self.input_shapes, self.input_types)

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
    rows = counted(context)
    total = int(context.trace.device.dur_ns[rows].sum())
    by_inputs = [_shaped(context.trace, *of_group) for of_group in _longest_by_shape(context, rows).tolist()]
    by_inputs.sort(key=lambda row: (-row.total_ns, row.kernel, row.operator, row.input_shapes, row.input_types))
    return KernelsByShape(tuple(by_inputs), total - sum(row.total_ns for row in by_inputs))


def _longest_by_shape(context: Context, rows: I64) -> I64:
    """The groups with the most time: codes of kernel, operator, shapes and types, number of launches and time."""
    device, host, table = context.trace.device, context.host, context.trace.host
    kernels, node = launched_by(context, rows)
    call = host.row[node]
    keys = (device.name[kernels], host.name[node], table.shapes[call], table.types[call])
    first, groups = group(*keys)
    times = sum_by(groups, device.dur_ns[kernels], len(first))
    figures = np.column_stack((*(key[first] for key in keys), count_by(groups, len(first)), times))
    return figures[np.argsort(-times, kind="stable")[:_MOST_BY_SHAPE]]


def _shaped(trace: Trace, kernel: int, operator: int, shapes: int, types: int, calls: int, time: int) -> KernelByShape:
    name = trace.names[kernel]
    return KernelByShape(
        kernel=name,
        operator=trace.names[operator],
        input_shapes=trace.shapes[shapes],
        input_types=trace.types[types],
        calls=calls,
        total_ns=time,
        tensor_cores=uses_tensor_cores(name),
    )


_KERNELS_BY_SHAPE_QUESTION = "Which kernel does an operator launch for which inputs?"
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
)
JOINED = (Analysis(50, "joined_kernels_by_operator", KernelsByOperator, by_operator, needs=(KERNELS,)),)
