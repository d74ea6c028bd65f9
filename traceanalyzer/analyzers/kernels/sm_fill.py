"""Which kernels leave multiprocessors without a block?

A kernel with fewer blocks than the device has multiprocessors leaves some of them empty, unless kernels of other
streams run beside it. Its fill is the mean, while it runs, of the share of multiprocessors that the blocks of all
running kernels can fill: min(1, sum of their blocks per multiprocessor), as in est. SM efficiency.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.kernels.figures import fill_of
from traceanalyzer.knowledge.kernel_names import is_communication
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Array, Bool, take_or
from traceanalyzer.trace.tables import Category, DeviceEvents
from traceanalyzer.trace.tree import NO_PARENT

_MOST_UNFILLED = 100
"""Rows of kernels that leave multiprocessors empty (own choice: more than people read)."""


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
    fill = fill_of(device, np.where(known, device.device, -1))
    communicates = trace.names.where(is_communication)[device.name]
    known &= device_events_in_scope(context)
    rows = np.flatnonzero(known & (device.blocks_per_sm < 1) & ~communicates)
    unfilled = sorted(_unfilled(context, rows, fill), key=_unfilled_order)
    return SmFill(tuple(unfilled[:_MOST_UNFILLED]), int(device.dur_ns[known].sum()))


def _unfilled_order(row: UnfilledKernel) -> tuple[int, str, str, str]:
    return (-row.total_ns, row.kernel, row.operator or "", row.grid)


def _unfilled(context: Context, rows: I64, fill: F64) -> Iterator[UnfilledKernel]:
    """Some kernels by name, operator and grid, with the means of their blocks and their fill, weighted by duration."""
    device = context.trace.device
    node = context.links.device_node()[rows]
    operator = np.where(node == NO_PARENT, -1, take_or(context.host.name, node, -1))
    keys = (device.name[rows], operator, device.grid[rows])
    first, groups = group(*keys)
    dur = device.dur_ns[rows]
    time = sum_by(groups, dur, len(first))
    mean_blocks = np.bincount(groups, weights=dur * device.blocks_per_sm[rows], minlength=len(first)) / time
    mean_fill = np.bincount(groups, weights=dur * fill[rows], minlength=len(first)) / time
    columns = (count_by(groups, len(first)), time, mean_blocks, mean_fill)
    named = _named(context.trace, keys, first)
    return map(UnfilledKernel, *zip(*named, strict=True), *(column.tolist() for column in columns))


def _named(trace: Trace, keys: tuple[Array, Array, Array], first: I64) -> list[tuple[str, str | None, str]]:
    """The kernel, operator and grid of each group, by their codes in its first row."""
    codes = zip(*(key[first].tolist() for key in keys), strict=True)
    return [(trace.names[name], trace.names[op] if op >= 0 else None, trace.dims[grid]) for name, op, grid in codes]


@event_set
def unfilled_at(context: Context, rows: tuple[UnfilledKernel, ...]) -> Iterator[Occurrences]:
    """When some of these kernels run."""
    trace, device = context.trace, context.trace.device
    wanted = {(row.kernel, row.operator, row.grid) for row in rows}
    has_wanted_name = trace.names.where({row.kernel for row in rows}.__contains__)
    kernels = np.flatnonzero(_known(device) & (device.blocks_per_sm < 1))
    kernels = kernels[has_wanted_name[device.name[kernels]]]
    node = context.links.device_node()[kernels]
    keys = device.name[kernels], take_or(context.host.name, node, -1), device.grid[kernels]
    first, groups = group(*keys)
    is_wanted = np.array([key in wanted for key in _named(trace, keys, first)], np.bool_)
    yield Occurrences.on_device(context, next(iter(rows)).kernel, kernels[is_wanted[groups]])


def _known(device: DeviceEvents) -> Bool:
    """Kernels of which the blocks are known, and on which device they met others."""
    known: Bool = (device.category == Category.KERNEL) & (device.blocks_per_sm > 0) & (device.device != UNKNOWN)
    return known


_BLOCKS = Need(
    Text("skip-no-blocks-per-sm", "no kernel has a recorded number of blocks per multiprocessor"),
    lambda context: _known(context.trace.device).any(),
)
ANALYSES = (
    Analysis(
        390,
        "sm_fill",
        SmFill,
        sm_fill,
        needs=(_BLOCKS,),
        is_of_steps=True,
        question="Which kernels leave multiprocessors without a block?",
    ),
)
