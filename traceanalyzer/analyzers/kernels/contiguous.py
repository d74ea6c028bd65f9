"""How fast do elementwise kernels move large contiguous tensors?

PyTorch launches `vectorized_elementwise_kernel` only for tensors that lie in memory one element after the other, so
such a kernel does nothing but read and write them. The bytes are those of the operator's inputs and result.

The first launch of each kernel is left out, and so are launches beside other kernels, which share the memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.operator_times import launched_by, works_of
from traceanalyzer.structure.sums import group, members
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category

_LEAST_BYTES = 1_000_000
"""Own choice: smaller tensors take microseconds, which the launch decides, and stay in a cache."""


class ContiguousWork(msgspec.Struct, frozen=True):
    """Launches of one elementwise kernel by one operator with the same inputs."""

    kernel: str
    """Name of the kernel as recorded, template arguments included."""
    operator: str
    """Name of the innermost operator around the launch."""
    input_shapes: str
    """Input shapes of the operator as recorded, as JSON."""
    dtype: str
    """Type of the operands."""
    calls: int
    """Number of launches without the first one of this kernel and those beside other kernels."""
    bytes: int
    """Bytes that one call reads and writes, each tensor once."""
    median_ns: int
    """Median of the durations of these launches in ns."""
    total_ns: int
    """Sum of the durations of these launches in ns."""

    @property
    def events(self) -> EventSet:
        """The calls of the operator as a set of events."""
        return EventSet.operator(self.operator, self.input_shapes)

    @property
    def gb_per_s(self) -> float:
        """Bytes of a call over the median duration, in 10^9 bytes per second."""
        return self.bytes / max(1, self.median_ns)


class ContiguousRates(msgspec.Struct, frozen=True):
    """Elementwise kernels on contiguous tensors of a megabyte or more in all."""

    rows: tuple[ContiguousWork, ...]
    """One row per kernel, operator and inputs, the most time first."""


def analyze(context: Context) -> ContiguousRates:
    """One row per kernel, operator and inputs."""
    rows = sorted(_rows(context), key=lambda row: (-row.total_ns, row.operator, row.input_shapes, row.kernel))
    return ContiguousRates(tuple(rows))


def _rows(context: Context) -> Iterator[ContiguousWork]:
    trace, device = context.trace, context.trace.device
    kernels, node = launched_by(context, _counted(context))
    works, _, work_of = works_of(context, node)
    call = context.host.row[node]
    keys = device.name[kernels], context.host.name[node], trace.host.shapes[call], work_of
    first, groups = group(*keys)
    named = zip(*(key[first].tolist() for key in keys), strict=True)
    for (kernel, operator, shapes, number), (_, own) in zip(named, members(groups), strict=True):
        work, durations = works[number], device.dur_ns[kernels[own]]
        if work is None or work.bytes is None or work.bytes < _LEAST_BYTES:
            continue
        yield ContiguousWork(
            kernel=trace.names[kernel],
            operator=trace.names[operator],
            input_shapes=trace.shapes[shapes],
            dtype=work.dtype or "",
            calls=len(own),
            bytes=work.bytes,
            median_ns=int(np.median(durations)),
            total_ns=int(durations.sum()),
        )


def _counted(context: Context) -> I64:
    """The kernels on contiguous tensors, without the first launch of each and without those beside others."""
    device = context.trace.device
    is_contiguous = context.trace.names.where(lambda name: "vectorized_elementwise_kernel" in name)[device.name]
    kernels = np.flatnonzero((device.category == Category.KERNEL) & is_contiguous)
    by_start = kernels[np.argsort(device.start_ns[kernels], kind="stable")]
    later = np.ones(len(by_start), np.bool_)
    later[np.unique(device.name[by_start], return_index=True)[1]] = False
    rows = np.sort(by_start[later])
    return rows[context.in_scope(device.start_ns[rows]) & _is_alone(context, rows)]


def _is_alone(context: Context, rows: I64) -> Bool:
    """Whether no other kernel runs on the device at the same time."""
    device = context.trace.device
    alone = np.ones(len(device), np.bool_)
    every = np.flatnonzero(device.category == Category.KERNEL)
    for _, own in members(device.device[every]):
        ordered = every[own][np.argsort(device.start_ns[every[own]], kind="stable")]
        before = np.maximum.accumulate(device.end_ns[ordered])[:-1]
        meets = device.start_ns[ordered[1:]] < before
        alone[ordered[1:][meets]] = False
        alone[ordered[:-1][device.end_ns[ordered[:-1]] > device.start_ns[ordered[1:]]]] = False
    found: Bool = alone[rows]
    return found


ANALYSES = (Analysis(395, "contiguous_rates", ContiguousRates, analyze, needs=(KERNELS, SHAPES), is_of_steps=True),)
