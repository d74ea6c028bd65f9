"""Which backward passes computed gradients that `zero_grad` threw away?"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.structure.autograd import Backward, backward, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import device_time
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.table import I64, Bool, entries

_USES_GRADIENTS = re.compile(
    r"_foreach_|_fused_|_amp_|norm|clip|clone|stack|cat$|reduce|nccl|(add|sub|mul|div|copy|lerp)_$"
)
"""Operators after a backward pass that read gradients: they are kept, checked, clipped, or stepped along."""
_SHOWN = 5


class Waste(msgspec.Struct, frozen=True):
    """A forward and backward pass whose gradients were not used."""

    start_ns: int
    """Start of the forward part in ns since the first event."""
    functions: int
    """Number of functions that autograd evaluated."""
    device_ns: int
    """Device time in ns of what the forward and the backward part launched."""
    host_ns: int
    """Time in ns from the first operator of the forward part to the end of the backward part."""


class Discarded(msgspec.Struct, frozen=True):
    """Forward and backward passes between an update and a `zero_grad`, with no update between."""

    passes: int
    """Number of passes whose gradients were thrown away."""
    updates: int
    """Number of updates before which that happens."""
    device_ns: int
    """Device time of these passes in ns."""
    host_ns: int
    """Time of these passes on the host in ns, from the first operator of each to its end."""
    examples: tuple[Waste, ...]
    """The passes with the most device time, at most five."""


def find(context: Context) -> Discarded | None:
    """Find passes that end in `zero_grad` instead of an update; None if there are none or it is unknown."""
    passes, (steps, zeroed) = context.once(backward), context.once(optimizer_starts)
    if not len(passes) or not len(steps) or not len(zeroed) or _take_turns(context):
        return None
    end = np.iinfo(np.int64).max
    step, zero = (entries(times, np.searchsorted(times, passes.end_ns), end) for times in (steps, zeroed))
    lost = (zero < step) & (step < end) & context.in_scope(passes.start_ns)
    lost &= ~np.isin(zero, _used(context, passes, lost, zero))
    if not lost.any():
        return None
    found = [_waste(context, passes, number) for number in np.flatnonzero(lost).tolist()]
    ranked = sorted(found, key=lambda waste: (-waste.device_ns, -waste.host_ns, waste.start_ns))
    return Discarded(
        len(found),
        len(distinct(step[lost])),
        sum(waste.device_ns for waste in found),
        sum(waste.host_ns for waste in found),
        tuple(ranked[:_SHOWN]),
    )


def _take_turns(context: Context) -> bool:
    """Whether several optimizers take turns: some steps follow each other without a backward pass between."""
    passes, (steps, _) = context.once(backward), context.once(optimizer_starts)
    passed = np.searchsorted(passes.start_ns, steps)
    return any(a == b for a, b in pairwise(passed.tolist()))


def _used(context: Context, passes: Backward, lost: Bool, zero: I64) -> I64:
    """Times of those calls of `zero_grad` between which and the pass before something reads gradients."""
    host, tree = context.host, context.host.tree
    reads = context.trace.names.where(lambda name: _USES_GRADIENTS.search(name) is not None)
    start = ascending(tree.start_ns[host.is_row & reads[host.name]])
    last = np.full(len(zero), 0, np.int64)
    for number in np.flatnonzero(lost).tolist():  # the last pass before the same call
        last[zero == zero[number]] = passes.end_ns[number]
    between = np.searchsorted(start, zero) > np.searchsorted(start, last)
    return distinct(zero[lost & between])


def _waste(context: Context, passes: Backward, number: int) -> Waste:
    """One pass with the forward part before it."""
    created, steps = context.once(graph).start_ns, np.sort(np.concatenate(context.once(optimizer_starts)))
    start, end = int(passes.start_ns[number]), int(passes.end_ns[number])
    before = int(passes.end_ns[number - 1]) if number else 0
    boundary = max(before, int(entries(steps, np.searchsorted(steps, start) - 1, 0)) if len(steps) else 0)
    first = int(np.searchsorted(created, boundary))
    begin = int(created[first]) if first < len(created) and created[first] < start else start
    launched = slice(*np.searchsorted(context.trace.launches.start_ns, (begin, end)).tolist())
    device = int(context.once(device_time)[launched].sum())
    return Waste(begin, int(passes.functions[number]), device, end - begin)
