"""Measures step times with and without the profiler."""

from __future__ import annotations

import statistics
import time
from typing import Any

BEFORE, PROFILED, AFTER = "before", "profiled", "after"


class StepClock:
    """Collects the durations of steps before, during and after profiling."""

    def __init__(self) -> None:
        self.durations_ns: dict[str, list[int]] = {BEFORE: [], PROFILED: [], AFTER: []}
        self._since: int | None = None

    def restart(self) -> None:
        """Begin the next step now, and discard the time since the end of the last one."""
        self._since = time.perf_counter_ns()

    def lap(self, phase: str | None) -> None:
        """End a step and begin the next. Without a phase, the duration of the step is discarded."""
        now = time.perf_counter_ns()
        if phase is not None and self._since is not None:
            self.durations_ns[phase].append(now - self._since)
        self._since = now

    def facts(self) -> dict[str, Any]:
        """Number of steps, mean and median duration in ns, for each phase that has steps."""
        return {phase: summary(durations) for phase, durations in self.durations_ns.items() if durations}


def summary(durations_ns: list[int]) -> dict[str, Any]:
    """Number, mean and median of the durations of some steps."""
    return {
        "steps": len(durations_ns),
        "mean_ns": round(statistics.fmean(durations_ns)),
        "median_ns": round(statistics.median(durations_ns)),
    }
