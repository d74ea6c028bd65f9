"""Tells passes that come when there is work from those that a program makes one after another.

A service waits for requests: between them nothing is recorded, and the pauses are uneven. What the program does in a
pause is unknown then, and no time of a pass. A loop whose code between passes was not recorded pauses evenly.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.autograd import backward
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category

FEWEST = 5
"""Least number of pauses whose lengths tell anything (own choice)."""
_UNEVEN = 1.5
"""Upper over lower quartile of the pauses from which on they are uneven (own choice: between requests that come at
random it is 5, and the pauses of a loop differ by a few percent)."""
_RECORDED = (Category.OPERATOR, Category.PYTHON, Category.ANNOTATION)


def wait_for_work(context: Context, marks: I64) -> bool:
    """Whether the pauses between marks look like waiting for requests; never those of a training.

    Args:
        context: The trace.
        marks: Rows of the host table that do not overlap, in the order of time.
    """
    host, launches = context.trace.host, context.trace.launches
    start, end = host.start_ns[marks], host.end_ns[marks]
    if len(marks) <= FEWEST or len(context.cached(backward).start_ns) or (context.kind == NodeKind.OPTIMIZER).any():
        return False
    works = np.isin(host.category, _RECORDED)
    begun = ascending(np.append(host.start_ns[works], launches.start_ns))
    is_silent = np.searchsorted(begun, end[:-1]) == np.searchsorted(begun, start[1:])
    low, high = np.quantile(start[1:] - end[:-1], (0.25, 0.75))
    return bool(is_silent.all() and high >= _UNEVEN * low)
