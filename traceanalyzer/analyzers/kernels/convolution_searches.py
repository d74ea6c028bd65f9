"""Does the library try out algorithms of convolutions again and again?

With `cudnn.benchmark` on, the first call of a convolution with new sizes runs every algorithm that fits and waits for
each, to measure it. Such a call launches several different kernels and waits about as often. Sizes that are new in each
step make every step such a search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import NO_CONVOLUTIONS, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.operator_times import launched_by
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_CONVOLUTION = re.compile(r"aten::(\w*_convolution\w*|convolution\w*|conv(_transpose)?[123]d)$")
_WAITS, _KERNELS = 3, 3
"""Least waits in one call, and least different kernels (own choice: a convolution waits for nothing, and launches one
kernel or a few around it)."""


class ConvolutionSearches(msgspec.Struct, frozen=True):
    """Calls of convolutions that try out algorithms."""

    calls: int
    """Number of these calls."""
    steps: int
    """Number of typical steps that have such a call."""
    kernels: int
    """Number of kernels that these calls launched."""
    time_ns: int
    """Time in ns for which the host is in these calls."""
    device_ns: int
    """Time in ns of the kernels of these calls, all algorithms together."""
    longest_ns: int
    """Time in ns of the longest kernel of each of these calls, twice of a backward pass: no algorithm needs more."""
    mean_ns: int
    """The same with the mean over the kernels of each call in place of its longest one."""

    @property
    def events(self) -> EventSet:
        """The calls as a set of events."""
        return searches_at()


def searches(context: Context) -> ConvolutionSearches:
    """Find calls of convolutions that launch several different kernels and wait for them."""
    nodes, tree = context.cached(_searching), context.host.tree
    nodes = nodes[context.in_scope(tree.start_ns[nodes])]
    kernels, call = _kernels_of(context, nodes)
    time = context.trace.device.dur_ns[kernels]
    longest = np.zeros(len(nodes), np.int64)
    np.maximum.at(longest, call, time)
    needed = np.where(context.trace.names.where(_is_backward)[context.host.name[nodes]], 2, 1)
    step = program_steps(context).typical.at(tree.start_ns[nodes])
    whole, count = sum_by(call, time, len(nodes)), count_by(call, len(nodes))
    return ConvolutionSearches(
        calls=len(nodes),
        steps=len(distinct(step[step >= 0])),
        kernels=len(kernels),
        time_ns=Intervals.union(tree.start_ns[nodes], tree.end_ns[nodes]).length,
        device_ns=int(whole.sum()),
        longest_ns=int(np.minimum(longest * needed, whole).sum()),
        mean_ns=int((whole * needed // count).sum()),
    )


@event_set
def searches_at(context: Context) -> Iterator[Occurrences]:
    """When the algorithms that convolutions try out run."""
    yield Occurrences.launched_in(context, "convolution", context.cached(_searching))


def _searching(context: Context) -> I64:
    """Nodes of outermost convolutions that search."""
    tree, device = context.host.tree, context.trace.device
    is_outermost = context.trace.names.where(_is_convolution)[context.host.name]
    is_outermost &= tree.around(is_outermost) == 0
    node = context.links.node[context.cached(host_activity.waits).row]
    waiting, waits = np.unique(tree.nearest(is_outermost)[node[node != NO_PARENT]], return_counts=True)
    nodes = waiting[(waiting != NO_PARENT) & (waits >= _WAITS)].astype(np.int64)
    kernels, call = _kernels_of(context, nodes)
    different = np.unique(np.column_stack((call, device.name[kernels])), axis=0)[:, 0]
    found: I64 = nodes[count_by(different, len(nodes)) >= _KERNELS]
    return found


def _kernels_of(context: Context, nodes: I64) -> tuple[I64, I64]:
    """Kernels launched within some nodes, and the position of each one's node."""
    marked = np.zeros(len(context.host.tree), np.bool_)
    marked[nodes] = True
    kernels, node = launched_by(context, np.flatnonzero(context.trace.device.category == Category.KERNEL))
    held = context.host.tree.nearest(marked)[node]
    return kernels[held != NO_PARENT], np.searchsorted(nodes, held[held != NO_PARENT])


def _is_backward(name: str) -> bool:
    return "backward" in name


def _is_convolution(name: str) -> bool:
    return _CONVOLUTION.match(name) is not None


_SEARCHES = Need(NO_CONVOLUTIONS, lambda context: len(context.cached(_searching)) > 0)
ANALYSES = (
    Analysis(
        411,
        "convolution_searches",
        ConvolutionSearches,
        searches,
        needs=(_SEARCHES,),
        is_of_steps=True,
    ),
)
