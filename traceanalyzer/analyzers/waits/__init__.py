"""Where does the host wait for the device, and does the device run out of work because of it?

A wait is a synchronizing call of the runtime, or a copy call that blocks the host until the copy has ended. Waiting
costs nothing while the device works. The cost is the gap that follows: once the queue has been emptied, the device does
nothing until the host has launched something new.

Waits until a whole device is done count as well if they are in the middle of a step, with a launch before and after
them: waits at the ends of steps are usually for timing, and the profiler itself waits for the device where a recording
begins and ends.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity, host_waits
from traceanalyzer.structure.analysis import RUNTIME_CALLS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import Steps, step_names
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.table import I64, Bool, entries

_DEVICE_WIDE = re.compile(r"^(cuda|hip|musa|mc)DeviceSynchronize|^(cu|hip)CtxSynchronize|^Context Sync$")


class Synchronization(msgspec.Struct, frozen=True):
    """All waits through one function from one place in the program."""

    call: str
    """Name of the runtime or driver function that waits."""
    operators: tuple[str, ...]
    """Names of the operators around the wait, outermost first, at most the innermost 32; empty if there are none."""
    python_line: str | None
    """The innermost Python line, the user's own where there is one; null where stacks were not recorded."""
    calls: int
    """Number of waits."""
    calls_per_step: float | None
    """Number of waits that start between the first and the last step of the program, per step; null without steps."""
    waiting_ns: int
    """Duration of all waits in ns."""
    max_waiting_ns: int
    """Duration of the longest wait in ns."""
    waiting_idle_ns: int | None
    """Part of the waiting in ns in which the device did nothing; null where no device activity was recorded."""
    drains: int | None
    """Number of waits after which the device had nothing to do, having worked during the wait; null where no device
    activity was recorded."""
    drained_ns: int | None
    """Time in ns for which the device did nothing from the ends of these waits until its next activity; null where no
    device activity was recorded."""
    drained_unexplained_ns: int | None
    """Part of that time in ns that no loader, collective, compilation, allocation or profiler overhead explains; null
    where no device activity was recorded."""
    avoidable_ns: int | None
    """Time in ns by which the steps could get shorter without these waits: for each the lesser of the wait and the
    unexplained gap after it; null where no device activity was recorded."""
    owner: str | None = None
    """The part of the program that the waits belong to: `file.py(12): function`, a mark or a module, as in the analysis
    `host_owners`; null where only operators and calls were recorded."""


class Synchronizations(msgspec.Struct, frozen=True):
    """Waits of the host for the device."""

    calls: int
    """Number of all waits."""
    calls_per_step: float | None
    """Number of waits that start between the first and the last step of the program, per step; null without steps."""
    waiting_ns: int
    """Duration of all waits in ns."""
    waiting_idle_ns: int | None
    """Part of the waiting in ns in which the device did nothing; null where no device activity was recorded."""
    drains: int | None
    """Number of waits after which the device had nothing to do, having worked during the wait; null where no device
    activity was recorded."""
    drained_ns: int | None
    """Time in ns for which the device did nothing after these waits; gaps count once, also where several threads wait
    at the same time. Null where no device activity was recorded."""
    drained_unexplained_ns: int | None
    """Part of that time in ns that no loader, collective, compilation, allocation or profiler overhead explains; null
    where no device activity was recorded."""
    avoidable_ns: int | None
    """Time in ns by which the steps could get shorter without any of these waits; null where no device activity was
    recorded."""
    rows: tuple[Synchronization, ...]
    """Waits by function, operators, Python line and owner, those first after which the device did nothing for longest
    without another reason."""
    calls_outside_steps: int | None = None
    """Number of waits that start before the first or after the last step, which `calls_per_step` leaves out; null
    without steps."""


def analyze(context: Context) -> Synchronizations:
    """Waits that start in the chosen steps, or all."""
    waits = context.once(host_activity.waits)
    scope = np.flatnonzero(context.in_scope(waits.start_ns))
    every = context.once(host_waits.costs)
    figures = None if every is None else every[scope]
    waits = waits.take(scope)
    window, steps = _steps(context).window, len(_steps(context))
    in_step = np.zeros(len(scope), np.bool_)
    if window is not None:
        in_step = (waits.start_ns >= window[0]) & (waits.start_ns < window[1])
    idle, drains, drained, unexplained, avoidable = _device_figures(figures)
    return Synchronizations(
        calls=len(scope),
        calls_per_step=int(in_step.sum()) / steps if steps else None,
        waiting_ns=int((waits.end_ns - waits.start_ns).sum()),
        waiting_idle_ns=idle,
        drains=drains,
        drained_ns=drained,
        drained_unexplained_ns=unexplained,
        avoidable_ns=avoidable,
        rows=_rows(context, waits, in_step, figures),
        calls_outside_steps=len(scope) - int(in_step.sum()) if steps else None,
    )


def _steps(context: Context) -> Steps:
    """The steps of the program, which findings are about."""
    return program_steps(context).every


def _device_figures(figures: I64 | None) -> list[int] | list[None]:
    """Sums of the results of `host_waits.costs` over some waits; None if no device activity was recorded."""
    if figures is None:
        return [None] * 5
    sums: list[int] = figures.sum(axis=0).tolist()
    return sums


def _rows(context: Context, waits: HostWaits, in_step: Bool, figures: I64 | None) -> tuple[Synchronization, ...]:
    """One row per function, operators, Python line and owner."""
    if not len(waits.row):
        return ()
    names, name = context.trace.names, context.trace.launches.name[waits.row]
    node = context.links.node[waits.row]
    line = host_activity.python_lines(context, waits.thread, waits.start_ns)
    index = context.once(owner_index)
    places = list(dict.fromkeys(index.places))
    number = np.array([places.index(place) for place in index.places])
    owner = number[index.of_launches(context, waits.row)]
    first, groups = group(name, host_waits.operator_chains(context, node), line, owner)
    count, steps = len(first), len(_steps(context))
    waiting = waits.end_ns - waits.start_ns
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, groups, waiting)
    per_step = count_by(groups[in_step], count) / steps if steps else np.full(count, None)
    columns = (count_by(groups, count), per_step, sum_by(groups, waiting, count), longest)
    sums = None
    if figures is not None:
        sums = np.zeros((count, figures.shape[1]), np.int64)
        np.add.at(sums, groups, figures)
    found = [
        Synchronization(
            names[name[row]],
            host_waits.operators_around(context, int(node[row])),
            names[line[row]] if line[row] >= 0 else None,
            *values,
            *(*_device_figures(None if sums is None else sums[number : number + 1]), places[owner[row]]),
        )
        for number, (row, *values) in enumerate(
            zip(first.tolist(), *(column.tolist() for column in columns), strict=True)
        )
    ]
    return tuple(sorted(found, key=_order))


def _order(row: Synchronization) -> tuple[object, ...]:
    return (
        -(row.drained_unexplained_ns or 0),
        -row.waiting_ns,
        row.call,
        row.operators,
        row.python_line or "",
        row.owner or "",
    )


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


def is_device_wide(name: str) -> bool:
    """Whether a call returns only when all work on a device is done."""
    return _DEVICE_WIDE.search(name) is not None


def device_wide_waits(context: Context) -> DeviceSyncs:
    """Waits for whole devices that lie between the launches of a step."""
    waits, names = context.once(host_activity.waits), context.trace.names
    call = context.trace.launches.name[waits.row]
    rows = np.flatnonzero(names.where(is_device_wide)[call])
    rows = rows[_in_the_middle(context, waits.start_ns[rows], waits.end_ns[rows])]
    if not len(rows):
        return DeviceSyncs(())
    costs = context.once(host_waits.costs)
    line = host_activity.python_lines(context, waits.thread[rows], waits.start_ns[rows])
    index = context.once(owner_index)
    owner = index.of_launches(context, waits.row[rows])
    first, groups = group(call[rows], line, owner)
    found = []
    for number, row in enumerate(first.tolist()):
        own = rows[groups == number]
        length = waits.end_ns[own] - waits.start_ns[own]
        longest = own[length.argmax()]
        steps = step_names(context.steps, waits.start_ns[own])
        found.append(
            DeviceSync(
                call=names[call[rows[row]]],
                python_line=names[line[row]] if line[row] >= 0 else None,
                calls=len(own),
                steps=len(set(steps)),
                waiting_ns=int(length.sum()),
                avoidable_ns=None if costs is None else int(costs[own, host_waits.AVOIDABLE].sum()),
                longest_start_ns=int(waits.start_ns[longest]),
                longest_step=steps[int(length.argmax())],
                owner=index.places[owner[row]],
            )
        )
    return DeviceSyncs(
        tuple(sorted(found, key=lambda row: (-row.waiting_ns, row.call, row.python_line or "", row.owner or "")))
    )


def _in_the_middle(context: Context, start: I64, end: I64) -> Bool:
    """Which waits have a launch before and after them in their step."""
    launched = context.trace.launches.start_ns[context.links.calls]  # ascending, like the rows of the table
    step_start, step_end = _host_steps(context)
    step = np.searchsorted(step_start, start, side="right") - 1
    begins, ends = entries(step_start, step, 0), entries(step_end, step, 0)
    before = np.searchsorted(launched, start) > np.searchsorted(launched, begins)
    after = np.searchsorted(launched, ends) > np.searchsorted(launched, end)
    found: Bool = (step >= 0) & (end <= ends) & before & after
    return found & context.in_scope(start)


def _host_steps(context: Context) -> tuple[I64, I64]:
    """Starts and ends of the marked steps on the host, if there are any; a step on the device begins later."""
    host, marked = context.trace.host, context.kind == NodeKind.STEP
    if not marked.any():
        return context.steps.start_ns, context.steps.end_ns
    return host.start_ns[marked], host.start_ns[marked] + host.dur_ns[marked]


ANALYSES = (
    Analysis(170, "synchronizations", Synchronizations, analyze, needs=(RUNTIME_CALLS,)),
    Analysis(200, "device_syncs", DeviceSyncs, device_wide_waits, needs=(RUNTIME_CALLS,)),
)
