"""Which kernels take milliseconds longer than the same kernels elsewhere?

A GPU that several processes use gives each a slice of time of about two milliseconds. The kernel that runs when a slice
ends goes on in the next one, and its recorded duration has the slices of the others in it. So single runs of many
different kernels are longer than the median of the same kernel with the same grid, which takes as long each time. One
kernel whose runs differ may read other data. Collectives wait for other ranks, and the first run of a kernel may load
its code: these are not judged.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import KERNELS, Analysis, Need
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.structure.sums import group, members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import F64, I64
from traceanalyzer.trace.tables import Category

LEAST_NS = 300_000
"""Least time beyond the median (own choice: clocks and caches change a kernel by less)."""
_TIMES = 5
"""A run is stretched from this many medians on (own choice)."""
_RUNS = 4
"""Least number of runs that show how long a kernel takes as a rule (own choice)."""
_PARTS = 10
_SHOWN = 5


class StretchedKernel(msgspec.Struct, frozen=True):
    """One run of a kernel that took much longer than others of the same grid."""

    kernel: str
    """Name of the kernel."""
    start_ns: int
    """Its start in ns since the first event."""
    duration_ns: int
    """Its duration in ns."""
    usual_ns: float
    """Median duration in ns of the same kernel with the same grid and blocks."""


class StretchedKernels(msgspec.Struct, frozen=True):
    """Runs of kernels that took much longer than the same kernels elsewhere."""

    judged: int
    """Number of kernels whose usual duration is known."""
    stretched: int
    """Number of those that took much longer."""
    names: int
    """Number of different kernels among them."""
    parts: int
    """In how many of ten equal parts of the judged kernels, in the order of time, there are some."""
    beyond_ns: int
    """Time in ns beyond the medians, in the typical steps."""
    median_beyond_ns: float
    """Median of the time beyond the median of each, in ns."""
    longest: tuple[StretchedKernel, ...]
    """Those with most time beyond the median, at most five."""


class _Found(msgspec.Struct, frozen=True):
    """Rows of stretched kernels in the device table, in the order of time."""

    judged: int
    rows: I64
    usual_ns: F64
    parts: int


def analyze(context: Context) -> StretchedKernels:
    """Sum up the stretched kernels."""
    found, device = context.cached(_find), context.trace.device
    beyond = device.dur_ns[found.rows] - found.usual_ns
    in_steps = typical.times(context).contains(device.start_ns[found.rows])
    longest = np.lexsort((device.start_ns[found.rows], -beyond))[:_SHOWN]
    return StretchedKernels(
        judged=found.judged,
        stretched=len(found.rows),
        names=len(distinct(device.name[found.rows])),
        parts=found.parts,
        beyond_ns=round(float(beyond[in_steps].sum())),
        median_beyond_ns=float(np.median(beyond)),
        longest=tuple(_told(context, found, place) for place in longest.tolist()),
    )


def _told(context: Context, found: _Found, place: int) -> StretchedKernel:
    device, row = context.trace.device, int(found.rows[place])
    name = context.trace.names[int(device.name[row])]
    return StretchedKernel(name, int(device.start_ns[row]), int(device.dur_ns[row]), float(found.usual_ns[place]))


@cached
def _find(context: Context) -> _Found:
    """The stretched kernels of the whole recording."""
    device = context.trace.device
    kernels = np.flatnonzero((device.category == Category.KERNEL) & ~communication_kernels(context))
    kernels = kernels[np.argsort(device.start_ns[kernels], kind="stable")]
    _, groups = group(device.device[kernels], device.name[kernels], device.grid[kernels], device.block[kernels])
    usual = np.full(len(kernels), np.inf)
    is_first = np.zeros(len(kernels), np.bool_)
    for _, rows in members(groups):
        if len(rows) >= _RUNS:
            usual[rows] = np.median(device.dur_ns[kernels[rows]])
            is_first[rows.min()] = True
    own = device.dur_ns[kernels]
    judged = np.flatnonzero(np.isfinite(usual) & ~is_first)
    kept = judged[(own[judged] > _TIMES * usual[judged]) & (own[judged] - usual[judged] >= LEAST_NS)]
    parts = distinct(np.searchsorted(judged, kept) * _PARTS // max(1, len(judged)))
    return _Found(len(judged), kernels[kept], usual[kept], len(parts))


_STRETCHED = Need(
    Text("skip-no-stretched-kernels", "no kernel took milliseconds longer than the same kernel elsewhere"),
    lambda context: len(context.cached(_find).rows) > 0,
)
ANALYSES = (Analysis(154, "stretched_kernels", StretchedKernels, analyze, needs=(KERNELS, _STRETCHED)),)
