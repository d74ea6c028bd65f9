"""Over how many steps does a printed table sum up?"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.trace.document import TableRow

_FEW_OPERATORS = 5
"""Own choice: the calls of fewer operators may be multiples of a number by chance."""
_NEARLY_ALL = 0.9
"""Share of the operators that a loop must call equally often each time (own choice): the first time may differ."""


def count(rows: Sequence[tuple[TableRow, RowKind]], loops: Sequence[int]) -> tuple[int, str | None]:
    """Number of steps, and the kind of rows that were counted; 1 and None if no row shows it.

    Calls of the profiler's steps count first, then those of the optimizer, then of the loader, then the loop of the
    program above the table that calls nearly all operators equally often each time.

    Args:
        rows: The rows of one run with their kinds.
        loops: How often the loops of the program above its tables run.
    """
    for prefix in ("ProfilerStep", "Optimizer.step", "enumerate(DataLoader)#"):
        named = [row for row, _ in rows if row.name.startswith(prefix) and row.calls]
        if named:
            if prefix == "ProfilerStep" and all("#" in row.name for row in named):
                return len({row.name for row in named}), "ProfilerStep"  # one row a step before torch 1.9
            best = max(named, key=lambda row: (row.self_cpu_ns or 0, row.calls or 0))
            return best.calls or 1, best.name
    calls = [row.calls for row, kind in rows if kind is RowKind.OPERATOR and row.calls]
    loop = next((loop for loop in loops if loop > 1 and _repeats(calls, loop)), None)
    return (1, None) if loop is None else (loop, f"range({loop})")


def _repeats(calls: Sequence[int], loop: int) -> bool:
    """Whether a loop that runs so often makes these calls."""
    fitting = sum(count % loop == 0 for count in calls)
    return len(calls) >= _FEW_OPERATORS and fitting >= _NEARLY_ALL * len(calls)
