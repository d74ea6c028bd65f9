"""The typical steps of the program, which everything about throughput is a mean over."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

WHOLE = frozenset({None, "whole-trace", "device-events", "host-annotations"})
"""The value of `steps_from` without marks of steps; the whole recording is not a step of the program."""


class TypicalSteps(msgspec.Struct, frozen=True):
    """Typical steps in the order of time; none where the program's steps are not known."""

    start_ns: I64
    end_ns: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> int:
        """Duration of all of them together."""
        return int((self.end_ns - self.start_ns).sum())

    def at(self, times: I64) -> I64:
        """For each time, the number of the typical step that contains it, or -1."""
        if not len(self):
            return np.full(len(times), -1)
        step = np.searchsorted(self.start_ns, times, side="right") - 1
        found: I64 = np.where((step >= 0) & (times < self.end_ns[step]), step, -1)
        return found


def typical(context: Context) -> TypicalSteps:
    """The steps that count."""
    steps = program_steps(context)
    if steps.found_by in WHOLE:
        return TypicalSteps(np.empty(0, np.int64), np.empty(0, np.int64))
    return TypicalSteps(steps.start_ns[steps.is_typical], steps.end_ns[steps.is_typical])


def first_work(context: Context, nodes: I64) -> I64:
    """For each node, when the first thing that it launched begins on a device; its own start where it launched nothing.

    The device is behind the host, so the time on the device shows which step the work is part of.

    Args:
        context: Of the trace.
        nodes: Positions in the host tree, none within another.
    """
    tree, device = context.host.tree, context.trace.device
    marked = np.zeros(len(tree), np.bool_)
    marked[nodes] = True
    inside = context.links.device_node()
    events = np.flatnonzero(inside != NO_PARENT)
    owner = tree.nearest(marked)[inside[events]]
    events, owner = events[owner != NO_PARENT], owner[owner != NO_PARENT]
    first = np.full(len(tree), np.iinfo(np.int64).max)
    np.minimum.at(first, owner, device.start_ns[events])
    idle = first == np.iinfo(np.int64).max
    found: I64 = np.where(idle, tree.start_ns, first)[nodes]
    return found


def outside(context: Context, within: Bool) -> Bool:
    """Which nodes do not lie within a marked node, nor are one."""
    found: Bool = context.host.tree.nearest(within) == NO_PARENT
    return found
