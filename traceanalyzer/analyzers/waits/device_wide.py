"""Where does the program, in the middle of a step, wait until a whole device is done?

Only waits with a launch before and after them in the same step count: waits at the ends of steps are usually for
timing, and the profiler itself waits for the device where a recording begins and ends.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.structure import host_activity, host_waits
from traceanalyzer.structure.analysis import RUNTIME_CALLS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.steps import step_names
from traceanalyzer.structure.sums import group, members
from traceanalyzer.trace.table import I64, Bool, take_or

is_device_wide = finds(r"^(cuda|hip|musa|mc)DeviceSynchronize|^(cu|hip)CtxSynchronize|^Context Sync$")
"""Whether a call returns only when all work on a device is done."""


class DeviceSync(msgspec.Struct, frozen=True):
    """All such waits through one function from one place in the program."""

    call: str
    """Name of the runtime or driver function that waits."""
    python_line: str | None
    """The Python line that called it; null where stacks were not recorded."""
    calls: int
    """Number of waits."""
    steps: int
    """Number of steps in which such a wait occurs."""
    waiting_ns: int
    """Duration of all waits in ns."""
    avoidable_ns: int | None
    """Time in ns that is saved without the waits: for each the smaller of the wait and of the gap in the work of the
    device after it; null without device activity."""
    longest_start_ns: int
    """Start of the longest wait in ns since the first event."""
    longest_step: str | None
    """Number of the step with the longest wait; null between steps."""
    owner: str | None = None
    """The part of the program that makes the waits, as in the analysis `synchronizations`; null if only operators and
    calls were recorded."""


class DeviceSyncs(msgspec.Struct, frozen=True):
    """Waits, the most time first."""

    rows: tuple[DeviceSync, ...]
    """Waits by function, Python line and owner, the most time first."""


def analyze(context: Context) -> DeviceSyncs:
    """Waits for whole devices that lie between the launches of a step."""
    waits = context.cached(host_activity.waits)
    call = context.trace.launches.name[waits.row]
    rows = np.flatnonzero(context.trace.names.where(is_device_wide)[call])
    rows = rows[_in_the_middle(context, waits.start_ns[rows], waits.end_ns[rows])]
    if not len(rows):
        return DeviceSyncs(())
    line = host_activity.python_lines(context, waits.thread[rows], waits.start_ns[rows])
    owner = context.cached(owner_index).of_launches(context, waits.row[rows])
    _, groups = group(call[rows], line, owner)
    syncs = []
    for _, of_group in members(groups):
        first = of_group[0]
        syncs.append(_sync(context, rows[of_group], int(line[first]), int(owner[first])))
    syncs.sort(key=lambda row: (-row.waiting_ns, row.call, row.python_line or "", row.owner or ""))
    return DeviceSyncs(tuple(syncs))


def _sync(context: Context, rows: I64, line: int, owner: int) -> DeviceSync:
    """Some waits of one function, Python line and owner, the latter by their numbers."""
    names = context.trace.names
    waits = context.cached(host_activity.waits)
    costs = context.cached(host_waits.costs)
    start = waits.start_ns[rows]
    length = waits.end_ns[rows] - start
    longest = int(length.argmax())
    steps = step_names(context.steps, start)
    return DeviceSync(
        call=names[context.trace.launches.name[waits.row[rows[0]]]],
        python_line=names[line] if line >= 0 else None,
        calls=len(rows),
        steps=len(set(steps)),
        waiting_ns=int(length.sum()),
        avoidable_ns=None if costs is None else int(costs[rows, host_waits.AVOIDABLE].sum()),
        longest_start_ns=int(start[longest]),
        longest_step=steps[longest],
        owner=context.cached(owner_index).places[owner],
    )


def _in_the_middle(context: Context, start: I64, end: I64) -> Bool:
    """Which waits have a launch before and after them in their step."""
    launched = context.trace.launches.start_ns[context.links.calls]  # ascending, like the rows of the table
    step_start, step_end = _host_steps(context)
    step = np.searchsorted(step_start, start, side="right") - 1
    begins = take_or(step_start, step, 0)
    ends = take_or(step_end, step, 0)
    before = np.searchsorted(launched, start) > np.searchsorted(launched, begins)
    after = np.searchsorted(launched, ends) > np.searchsorted(launched, end)
    found: Bool = (step >= 0) & (end <= ends) & before & after
    return found & context.in_scope(start)


def _host_steps(context: Context) -> tuple[I64, I64]:
    """Starts and ends of the marked steps on the host, if there are any; a step on the device begins later."""
    host = context.trace.host
    marked = context.kind == NodeKind.STEP
    if not marked.any():
        return context.steps.start_ns, context.steps.end_ns
    return host.start_ns[marked], host.start_ns[marked] + host.dur_ns[marked]


ANALYSES = (Analysis(200, "device_syncs", DeviceSyncs, analyze, needs=(RUNTIME_CALLS,), is_of_steps=True),)
