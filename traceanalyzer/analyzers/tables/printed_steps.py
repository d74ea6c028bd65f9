"""Over how many steps does a printed table sum up?"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.knowledge.marks import is_optimizer_step
from traceanalyzer.trace.document import TableRow

_FEW_OPERATORS = 5
"""Own choice: the calls of fewer operators may be multiples of a number by chance."""
_NEARLY_ALL = 0.9
"""Share of the operators that a loop must call equally often each time (own choice): the first time may differ."""

_FEWEST_WHOLE = 2
"""Own choice: any number of calls is a multiple of one step."""


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
            steps = best.calls or 1
            return steps - (prefix == "ProfilerStep" and _ends_early(rows, steps)), best.name
    calls = [row.calls for row, kind in rows if kind is RowKind.OPERATOR and row.calls]
    loop = next((loop for loop in loops if loop > 1 and _repeats(calls, loop)), None)
    return (1, None) if loop is None else (loop, f"range({loop})")


def _ends_early(rows: Sequence[tuple[TableRow, RowKind]], marks: int) -> bool:
    """Whether the profile ended soon after its last mark of a step: one step less did all the work.

    Then an optimizer stepped once less, and the calls of more operators are multiples of that number than of the marks.
    """
    whole = marks - 1
    if whole < _FEWEST_WHOLE or whole not in {row.calls for row, _ in rows if is_optimizer_step(row.name)}:
        return False
    calls = [row.calls for row, kind in rows if kind is RowKind.OPERATOR and row.calls]
    of_whole = sum(count % whole == 0 and count % marks != 0 for count in calls)
    of_marks = sum(count % marks == 0 and count % whole != 0 for count in calls)
    return of_whole >= _FEW_OPERATORS and of_whole >= 2 * of_marks


def _repeats(calls: Sequence[int], loop: int) -> bool:
    """Whether a loop that runs so often makes these calls."""
    fitting = sum(count % loop == 0 for count in calls)
    return len(calls) >= _FEW_OPERATORS and fitting >= _NEARLY_ALL * len(calls)
