"""Is a device always half busy, or fully busy half of the time?"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure import busy_times
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import Bool

_PARTS = 100
"""Number of equal parts of the window that show whether a device is busy all the time."""


def extremes(context: Context, steps: Steps, steady: Bool, number: int) -> tuple[float | None, float | None]:
    """Busy shares (0 to 1) of the least and the most busy 5 % of equal parts of the window, within steady steps.

    None and None without such a part.
    """
    bounds = np.linspace(int(steps.start_ns[0]), int(steps.end_ns[-1]), _PARTS + 1).astype(np.int64)
    start, end = bounds[:-1], bounds[1:]
    inside = Intervals.union(steps.start_ns[steady], steps.end_ns[steady]).within(start, end) == end - start
    start, end = start[inside & (end > start)], end[inside & (end > start)]
    if not len(start):
        return None, None
    busy = busy_times.of_device(context, number).within(start, end)
    low, high = np.percentile(busy / (end - start), (5, 95)).tolist()
    return low, high
