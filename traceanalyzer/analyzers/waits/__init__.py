"""Where does the host wait for the device, and does the device run out of work because of it?

A wait is a synchronizing call of the runtime, or a copy call that blocks the host until the copy has ended. Waiting
costs nothing while the device works. The cost is the gap that follows: once the queue has been emptied, the device does
nothing until the host has launched something new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity, host_waits
from traceanalyzer.structure.analysis import RUNTIME_CALLS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.host_waits import costs
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, group, most_by, sum_by
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I32, I64, Bool


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
    """Number of waits that start in a typical step, per step; null without steps."""
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
    """Time in ns by which the typical steps could get shorter without these waits: for each the lesser of the wait and
    the unexplained gap after it; null where no device activity was recorded."""
    is_of_scaler: bool = False
    """Whether AMP's gradient scaler reads here whether the gradients are finite, which the program must know."""
    is_of_random: bool = False
    """Whether what is read was drawn at random directly before."""
    owner: str | None = None
    """The part of the program that the waits belong to: `file.py(12): function`, a mark or a module, as in the analysis
    `host_owners`; null where only operators and calls were recorded."""


class Synchronizations(msgspec.Struct, frozen=True):
    """Waits of the host for the device."""

    calls: int
    """Number of all waits."""
    calls_per_step: float | None
    """Number of waits that start in a typical step, per step; null without steps."""
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
    """Time in ns by which the typical steps could get shorter without any of these waits; null where no device activity
    was recorded."""
    rows: tuple[Synchronization, ...]
    """Waits by function, operators, Python line and owner, those first after which the device did nothing for longest
    without another reason."""
    calls_outside_steps: int | None = None
    """Number of waits that start before the first or after the last step, which `calls_per_step` leaves out; null
    without steps."""
    waiting_ns_per_step: float | None = None
    """Duration in ns of the waits that start in a typical step, per step; null without steps."""


def analyze(context: Context) -> Synchronizations:
    """Waits that start in the chosen steps, or all."""
    waits = context.cached(host_activity.waits)
    scope = np.flatnonzero(context.in_scope(waits.start_ns))
    waits = waits.take(scope)
    program = program_steps(context)
    steps = len(program.typical)
    is_between = np.zeros(len(scope), np.bool_)
    if program.every.window is not None:
        first, end = program.every.window
        is_between = (waits.start_ns >= first) & (waits.start_ns < end)
    in_step = program.typical.at(waits.start_ns) >= 0
    figures = context.cached(costs)
    if figures is not None:
        figures = figures[scope]
        figures = np.column_stack((figures[:, :-1], np.where(in_step, figures[:, -1], 0)))
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
        calls_outside_steps=len(scope) - int(is_between.sum()) if steps else None,
        waiting_ns_per_step=int((waits.end_ns - waits.start_ns)[in_step].sum()) / steps if steps else None,
    )


def _device_figures(figures: I64 | None) -> list[int] | list[None]:
    """Sums of the results of `costs` over some waits; None if no device activity was recorded."""
    if figures is None:
        return [None] * 5
    sums: list[int] = figures.sum(axis=0).tolist()
    return sums


def _rows(context: Context, waits: HostWaits, in_step: Bool, figures: I64 | None) -> tuple[Synchronization, ...]:
    """One row per function, operators, Python line and owner."""
    if not len(waits.row):
        return ()
    node = context.links.node[waits.row]
    line = host_activity.python_lines(context, waits.thread, waits.start_ns)
    places, owner = _owners(context, waits)
    call = context.trace.launches.name[waits.row]
    of_scaler = is_among(waits.row, host_waits.scaler_reads(context))
    drawn = host_waits.reads_random(context, waits)
    first, groups = group(call, host_waits.operator_chains(context, node), line, owner, of_scaler, drawn)
    rows = zip(
        _places(context, node[first], line[first], call[first]),
        _columns(context, waits, in_step, groups, len(first)),
        _device_sums(figures, groups, len(first)),
        np.column_stack((of_scaler, drawn))[first].tolist(),
        owner[first].tolist(),
        strict=True,
    )
    syncs = [
        Synchronization(*(*place, *values, *on_device, *reads, places[number]))
        for place, values, on_device, reads, number in rows
    ]
    return tuple(sorted(syncs, key=_order))


def _places(context: Context, node: I64, line: I64, call: I32) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    """The function, operators and Python line of some waits."""
    names = context.trace.names
    for around, code, function in zip(node.tolist(), line.tolist(), call.tolist(), strict=True):
        python_line = names[code] if code >= 0 else None
        yield names[function], host_waits.operators_around(context, around), python_line


def _owners(context: Context, waits: HostWaits) -> tuple[list[str | None], I64]:
    """The places of owners, and the position of each wait's among them."""
    index = context.cached(owner_index)
    places = list(dict.fromkeys(index.places))
    position = np.array([places.index(place) for place in index.places])
    return places, position[index.of_launches(context, waits.row)]


def _columns(context: Context, waits: HostWaits, in_step: Bool, groups: I64, count: int) -> list[tuple[Any, ...]]:
    """Of each group of waits: calls, calls per step (None without steps), time and longest wait."""
    steps = len(program_steps(context).typical)
    waiting = waits.end_ns - waits.start_ns
    per_step = count_by(groups[in_step], count) / steps if steps else np.full(count, None)
    columns = (count_by(groups, count), per_step, sum_by(groups, waiting, count), most_by(groups, waiting, count))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _device_sums(figures: I64 | None, groups: I64, count: int) -> Sequence[list[int] | list[None]]:
    """The figures of devices, summed over each group of waits."""
    if figures is None:
        return [_device_figures(None)] * count
    sums = np.zeros((count, figures.shape[1]), np.int64)
    np.add.at(sums, groups, figures)
    rows: list[list[int]] = sums.tolist()
    return rows


def _order(row: Synchronization) -> tuple[object, ...]:
    return (
        -(row.drained_unexplained_ns or 0),
        -row.waiting_ns,
        row.call,
        row.operators,
        row.python_line or "",
        row.owner or "",
    )


ANALYSES = (Analysis(170, "synchronizations", Synchronizations, analyze, needs=(RUNTIME_CALLS,)),)
