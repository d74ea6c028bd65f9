"""When does a program reduce gradients between ranks, on devices or on the CPU?"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.strings import Answers
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_ALL_REDUCE = re.compile(r"all_?reduce", re.IGNORECASE)


class Reductions(msgspec.Struct, frozen=True):
    """All-reduces in the order in which they are called."""

    row: I64
    """Rows of the device table, or of the host table."""
    called: I64
    start_ns: I64
    dur_ns: I64
    others: Intervals
    """When the program computes."""
    on_device: bool
    is_timed: bool
    """Whether durations are those of the all-reduces, not of handing them over to a device that was not recorded."""

    def exposed(self, rows: I64) -> int:
        """Time in which some of them run and nothing computes."""
        start = self.start_ns[rows]
        return (Intervals.union(start, start + self.dur_ns[rows]) - self.others).length


def reductions(context: Context) -> Reductions:
    """Kernels that reduce; if there are none, host ranges."""
    trace = context.trace
    is_reduce = trace.names.where(lambda name: _ALL_REDUCE.search(name) is not None)
    communicates = communication_kernels(context)
    launched = context.links.launch != NO_PARENT
    kernels = np.flatnonzero(communicates & is_reduce[trace.device.name] & launched)
    if len(kernels):
        return _on_device(context, kernels, communicates)
    return _on_host(context, is_reduce)


def _on_device(context: Context, kernels: I64, communicates: Bool) -> Reductions:
    device = context.trace.device
    called = context.trace.launches.start_ns[context.links.launch[kernels]]
    order = np.argsort(called, kind="stable")
    kernels = kernels[order]
    computes = (device.category == Category.KERNEL) & ~communicates
    others = Intervals.union(device.start_ns[computes], device.end_ns[computes])
    start = device.start_ns[kernels]
    return Reductions(kernels, called[order], start, device.dur_ns[kernels], others, on_device=True, is_timed=True)


def _on_host(context: Context, is_reduce: Answers) -> Reductions:
    """Ranges in which the CPU reduces; if there are none, annotations, whose times say nothing."""
    host = context.trace.host
    reduces = is_reduce[host.name]
    ranges = context.cached(recorded_collectives.host_ranges) & reduces
    is_timed = bool(ranges.any())
    rows = np.flatnonzero(ranges if is_timed else (host.category == Category.ANNOTATION) & reduces)
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    start = host.start_ns[rows]
    others = context.cached(recorded_collectives.computing)
    return Reductions(rows, start, start, host.dur_ns[rows], others, on_device=False, is_timed=is_timed)
