"""Finds the runtime calls and the host threads of the model."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation.graph import NOTHING
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.launch_calls import blocked_calls
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT, Tree


class Calls(msgspec.Struct, frozen=True):
    """Outermost calls of a window that launch work, wait or allocate memory, ordered by thread, then by start."""

    row: I64
    """Row in the launch table."""
    thread: I64
    start_ns: I64
    end_ns: I64
    waits: Bool
    """Whether a call returns only after some device work: a synchronization, blocking copy, full queue."""
    allocates: Bool
    """Whether a call allocates or frees memory, for which it may wait."""
    of_row: I64
    """For each row of the launch table, the position of its outermost call."""

    def __len__(self) -> int:
        return len(self.row)


def find(context: Context, window: ModelledWindow) -> Calls:
    """The calls of the threads that launch work, within a window."""
    launches, names = context.trace.launches, context.trace.names
    waits = np.zeros(len(launches), np.bool_)
    waits[context.once(host_activity.waits).row] = True
    waits[blocked_calls(context)] = True
    allocates = names.where(host_activity.is_allocation)[launches.name]
    launching = np.zeros(len(launches), np.bool_)
    launching[context.links.launch[context.links.launch != NO_PARENT]] = True
    threads = host_activity.launching_threads(context)
    wanted = (launching | waits | allocates) & is_among(launches.thread, threads)
    wanted &= (launches.start_ns >= window.start_ns) & (launches.start_ns < window.end_ns)
    rows = np.flatnonzero(wanted)
    tree, order = Tree.build(launches.thread[rows], launches.start_ns[rows], launches.dur_ns[rows])
    rows = rows[order]
    outer = np.flatnonzero(tree.parent == NO_PARENT)
    root = tree.nearest(tree.parent == NO_PARENT)
    of_row = np.full(len(launches), NOTHING)
    of_row[rows] = np.searchsorted(outer, root)
    inner_waits = np.zeros(len(outer), np.bool_)
    inner_waits[of_row[rows[waits[rows]]]] = True
    kept = rows[outer]
    return Calls(
        row=kept,
        thread=launches.thread[kept].astype(np.int64),
        start_ns=launches.start_ns[kept],
        end_ns=launches.end_ns[kept],
        waits=inner_waits,
        allocates=allocates[kept],
        of_row=of_row,
    )
