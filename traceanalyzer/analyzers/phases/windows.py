"""Over how many steps are phases divided, and when were these?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.distinct import moments
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool

_NO_STEPS = (None, "whole-trace", "device-events", "host-annotations")
"""The value of `steps_from` if nothing marks or repeats a step."""


class Windows(msgspec.Struct, frozen=True):
    """Steps as the host ran through them."""

    start_ns: I64
    end_ns: I64
    count: int
    """Number of steps that values are divided by; 0 if steps are unknown."""
    found_by: str | None

    @property
    def times(self) -> Intervals:
        """The time in some step."""
        return Intervals.union(self.start_ns, self.end_ns)

    def contain(self, times: I64) -> Bool:
        """Which points in time lie in a step."""
        return self.times.contains(times)

    def cut(self, start_ns: I64, end_ns: I64) -> Bool:
        """Which intervals a step begins or ends within; none if steps are unknown."""
        if not self.count:
            return np.zeros(len(start_ns), np.bool_)
        bounds = moments(self.start_ns, self.end_ns)
        found: Bool = np.searchsorted(bounds, end_ns, "left") > np.searchsorted(bounds, start_ns, "right")
        return found


def windows(context: Context) -> Windows:
    """All steps that the profiler marked, cut off or not; else those of the program; of chosen steps just these."""
    marked = np.flatnonzero(context.kind == NodeKind.STEP)
    if context.scope is not None:
        steps = context.steps
        return Windows(steps.start_ns, steps.end_ns, len(steps), steps.found_by)
    if len(marked):
        host = context.trace.host
        return Windows(host.start_ns[marked], host.end_ns[marked], len(marked), "ProfilerStep")
    found = context.once(program_steps)
    if found.found_by in _NO_STEPS:
        whole = context.steps
        return Windows(whole.start_ns, whole.end_ns, 0, None)
    return Windows(found.start_ns, found.end_ns, len(found.names), found.found_by)
