"""Where on the critical path does the host not work: asleep, waiting for collectives, or with its events removed?

The causal model has one kind of host time. What it waits for is told by what else was recorded at that time, so this
holds for the path as recorded, not for replays of changes.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from traceanalyzer.knowledge import host_roles
from traceanalyzer.simulation.back_pointers import Pieces, Why
from traceanalyzer.simulation.model import Model
from traceanalyzer.simulation.path_owners import cut
from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.unrecorded_work import holes
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64


class Wait(IntEnum):
    """Why the host does not work."""

    NOTHING = 0
    ASLEEP = 1
    """Its thread is in a built-in function that sleeps, or waits for a lock, a process, a file or the network."""
    COLLECTIVE = 2
    """A collective runs on the CPU, and no operator does."""
    REMOVED = 3
    """Events were removed from the recording, so that nobody knows."""


def told(found: Model, pieces: Pieces) -> tuple[Pieces, I64]:
    """Cut the host time of a path where the host begins or ends to work.

    Returns:
        The pieces, and why the host does not work in each, one of `Wait`.
    """
    context = found.context
    is_host = pieces.why == Why.HOST
    threads = np.unique(found.graph.host.thread[pieces.point[is_host]])
    asleep = {thread: times for thread in threads.tolist() if (times := _asleep(context, thread))}
    collectives, removed = context.once(recorded_collectives.exposed_on_host), holes(context)
    waits = [times for times in (*asleep.values(), collectives, removed) if times]
    if not waits:
        return pieces, np.zeros(len(pieces.why), np.int64)
    borders = np.unique(np.concatenate([edge for times in waits for edge in (times.start, times.end)]))
    part, start, end = cut(pieces.start_ns, pieces.end_ns, borders)
    parts = Pieces(start, end, pieces.why[part], pieces.point[part], pieces.event[part])
    rows = np.flatnonzero(is_host[part])
    wait = np.zeros(len(part), np.int64)
    wait[rows[collectives.contains(start[rows])]] = Wait.COLLECTIVE
    wait[rows[removed.contains(start[rows])]] = Wait.REMOVED
    thread = found.graph.host.thread[parts.point[rows]]
    for own, times in asleep.items():
        wait[rows[(thread == own) & times.contains(start[rows])]] = Wait.ASLEEP
    return parts, wait


def _asleep(context: Context, thread: int) -> Intervals:
    """When a thread is in a built-in function that waits."""
    frames = context.trace.frames
    rows = np.flatnonzero((frames.thread == thread) & context.trace.names.where(host_roles.is_waiting)[frames.name])
    return Intervals.union(frames.start_ns[rows], frames.end_ns[rows])
