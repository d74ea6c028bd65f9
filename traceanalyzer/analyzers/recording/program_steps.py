"""Steps of the program, for everything that is judged: marked by the profiler or not, and which of them are typical.

`analyzers.steps` keeps the steps of the step breakdown, whose numbers other tools share; these are beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.trace.table import I64, Bool


@dataclass(frozen=True)
class ProgramSteps:
    """Steps in the order of time, and which of them count as typical."""

    names: tuple[str, ...]
    start_ns: I64
    end_ns: I64
    found_by: str | None
    """What marks the steps: `ProfilerStep`, the name of a mark or a framework, `whole-trace`; None without steps."""
    reasons: tuple[str | None, ...]
    """Why a step is left out of the typical step; None for those that count."""

    @property
    def is_typical(self) -> Bool:
        """Which steps count."""
        return np.array([reason is None for reason in self.reasons], np.bool_)


def program_steps(context: Context) -> ProgramSteps:
    """Find the steps of the program."""
    steps = context.steps
    return ProgramSteps(steps.names, steps.start_ns, steps.end_ns, steps.found_by, (None,) * len(steps))
