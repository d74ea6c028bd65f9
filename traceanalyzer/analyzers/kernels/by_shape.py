"""Which kernel does an operator launch for which inputs?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_ROWS = 500
"""Rows in the result (own choice: real models launch a few hundred combinations; the rest is one sum)."""

_NO_SHAPES = Text(
    "skip-no-shapes",
    "the trace has no input shapes: record them with record_shapes=True",
    "record_shapes=True is code",
)


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


class KernelsByShape(msgspec.Struct, frozen=True):
    """Kernels by name, operator and inputs of the operator."""

    rows: tuple[KernelByShape, ...]
    """The rows with the most time, the most first; the list ends at a limit."""
    rest_ns: int
    """Kernel time in ns that is in no row."""


def analyze(context: Context) -> KernelsByShape:
    """One row per kernel, operator, input shapes and input types."""
    trace, host = context.trace, context.host
    device, names = trace.device, trace.names
    kernels = np.flatnonzero((device.category == Category.KERNEL) & context.in_scope(device.start_ns))
    total = int(device.dur_ns[kernels].sum())
    node = context.links.device_node()[kernels]
    kernels, node = kernels[node != NO_PARENT], host.top[node[node != NO_PARENT]]
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
        for kernel, operator, shapes, types, calls, time in figures[np.argsort(-times, kind="stable")[:_ROWS]].tolist()
    ]
    rows.sort(key=lambda r: (-r.total_ns, r.kernel, r.operator, r.input_shapes, r.input_types))
    return KernelsByShape(tuple(rows), total - sum(r.total_ns for r in rows))


ANALYSES = (Analysis(370, "kernels_by_shape", KernelsByShape, analyze, needs=(KERNELS, SHAPES)),)
