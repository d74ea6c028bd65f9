"""How far can the trace be trusted? Counts of what lowers the confidence of other figures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.trace.model import Loss
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_UNATTRIBUTED = 0.05
"""Share of kernel time without an operator that is worth a warning (own choice: below, tables hardly change)."""


def analyze(context: Context) -> tuple[Loss, ...]:
    """All doubts, in a fixed order."""
    return tuple(_doubts(context))


def _doubts(context: Context) -> Iterator[Loss]:
    trace = context.trace
    if context.steps.found_by not in ("ProfilerStep", None):
        yield Loss("q-no-steps", 1, {})
    if context.host.tree.clipped:
        yield Loss("q-overlapping-slices", context.host.tree.clipped, {})
    kernels = trace.device.category == Category.KERNEL
    total = int(trace.device.dur_ns[kernels].sum())
    homeless = kernels & (context.links.device_node() == NO_PARENT)
    time = int(trace.device.dur_ns[homeless].sum())
    if total and time / total > _UNATTRIBUTED:
        yield Loss("q-unattributed", int(homeless.sum()), {"time": time, "share": time / total})
    linked = np.flatnonzero(kernels & (context.links.launch != NO_PARENT))
    early = trace.device.start_ns[linked] < trace.launches.start_ns[context.links.launch[linked]]
    if early.any():
        yield Loss("q-clock-anomaly", int(early.sum()), {})
