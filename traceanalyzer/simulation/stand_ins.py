"""Replaces autograd's thread by the thread that waits for it, where the model does not follow autograd's thread.

The model follows threads that launch device work. Without a device that is only the thread of the steps, which waits
while autograd works on a separate thread, so that time on autograd's thread counts as time of the step.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64


def of_times(context: Context, followed: I64, thread: I64, start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """Intervals of threads for a `HostEdit`, with those of autograd's thread moved to the thread that waits for it.

    Args:
        context: The trace.
        followed: Threads that the model follows.
        thread: Thread of each interval.
        start_ns: Start of each interval.
        end_ns: End of each interval.
    """
    engine = _engine(context, followed, thread)
    if engine is None:
        return thread, start_ns, end_ns
    found, is_engine = context.once(owner_index).critical, thread == engine
    moved = Intervals.union(start_ns[is_engine], end_ns[is_engine]) & found.handed
    own = ~is_engine
    return (
        np.concatenate((thread[own], np.full(len(moved), found.main))),
        np.concatenate((start_ns[own], moved.start)),
        np.concatenate((end_ns[own], moved.end)),
    )


def _engine(context: Context, followed: I64, thread: I64) -> int | None:
    """Autograd's thread if it is among the threads and the model follows only the thread that waits for it, or None."""
    found = context.once(owner_index).critical
    if found.engine is None or not (thread == found.engine).any():
        return None
    return found.engine if (followed == found.main).any() and not (followed == found.engine).any() else None
