"""Which kernels leave multiprocessors without a block?

A kernel with fewer blocks than the device has multiprocessors leaves some of them empty, unless kernels of other
streams run beside it. Its fill is the mean, while it runs, of the share of multiprocessors that the blocks of all
running kernels can fill: min(1, sum of their blocks per multiprocessor), as in est. SM efficiency.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_names import is_communication
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tables import Category, DeviceEvents
from traceanalyzer.trace.tree import NO_PARENT

_ROWS = 100
"""Most rows in the result (own choice: more than people read)."""


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


class SmFill(msgspec.Struct, frozen=True):
    """Kernels with less than one block per multiprocessor, those with the most time first; no collectives."""

    rows: tuple[UnfilledKernel, ...]
    """Kernels with less than one block per multiprocessor, without collectives, the most time first; the list ends at a
    limit."""
    total_ns: int
    """Time in ns of all kernels with known blocks per multiprocessor, overlap counted twice."""


def analyze(context: Context) -> SmFill:
    """One row per kernel, operator and grid that leaves multiprocessors empty by itself."""
    trace, device = context.trace, context.trace.device
    known = _known(device) & (device.dur_ns > 0)
    fill = _fill(device.start_ns, device.dur_ns, device.blocks_per_sm, np.where(known, device.device, -1))
    communicates = trace.names.where(is_communication)[device.name]
    counted = known & context.in_scope(device.start_ns)
    rows = np.flatnonzero(counted & (device.blocks_per_sm < 1) & ~communicates)
    node = context.links.device_node()[rows]
    operator = np.where(node == NO_PARENT, -1, entries(context.host.name, node, -1))
    keys = (device.name[rows], operator, device.grid[rows])
    first, groups = group(*keys)
    time = sum_by(groups, device.dur_ns[rows], len(first))
    weights = device.dur_ns[rows]
    blocks = np.bincount(groups, weights=weights * device.blocks_per_sm[rows], minlength=len(first)) / time
    filled = np.bincount(groups, weights=weights * fill[rows], minlength=len(first)) / time
    columns = (*(key[first].tolist() for key in keys), count_by(groups, len(first)).tolist(), time.tolist())
    found = [
        UnfilledKernel(trace.names[name], trace.names[op] if op >= 0 else None, trace.dims[grid], *figures)
        for name, op, grid, *figures in zip(*columns, blocks.tolist(), filled.tolist(), strict=True)
    ]
    found.sort(key=lambda row: (-row.total_ns, row.kernel, row.operator or "", row.grid))
    return SmFill(tuple(found[:_ROWS]), int(device.dur_ns[counted].sum()))


def _known(device: DeviceEvents) -> Bool:
    """Kernels of which the blocks are known, and on which device they met others."""
    known: Bool = (device.category == Category.KERNEL) & (device.blocks_per_sm > 0) & (device.device != UNKNOWN)
    return known


def _fill(start: I64, dur: I64, blocks: F64, number: I64) -> F64:
    """For each kernel, the mean of min(1, blocks per multiprocessor of all that run) while it runs; NaN without one."""
    fill = np.full(len(start), np.nan)
    blocks = np.minimum(blocks, 1)  # more fill no more, and absurd ones would swallow the others in the sums
    for one in distinct(number[number >= 0]).tolist():
        rows = np.flatnonzero(number == one)
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
ANALYSES = (Analysis(390, "sm_fill", SmFill, analyze, needs=(_BLOCKS,)),)
