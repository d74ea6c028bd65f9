"""Autograd's thread where the model does not follow it.

The model follows threads that launch work of a device. On a CPU that is only the thread of the steps, which waits while
autograd works on a thread of its own: then that thread's time is time of the step.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.host_owners import owner_index
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64


def of_times(context: Context, followed: I64, thread: I64, start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """Times of threads with those of autograd's moved to the thread that waits for it; as the fields of `edits.Host`.

    Args:
        context: The trace.
        followed: Threads that the model follows.
        thread: Thread of each time.
        start_ns: Its start.
        end_ns: Its end.
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
    """Autograd's thread, if some of the threads are it and the model does not follow it but the one that waits."""
    found = context.once(owner_index).critical
    if found.engine is None or not (thread == found.engine).any():
        return None
    return found.engine if (followed == found.main).any() and not (followed == found.engine).any() else None
