"""Measures how long steps take, with the profiler and without."""

from __future__ import annotations

import statistics
import time
from typing import Any

BEFORE, PROFILED, AFTER = "before", "profiled", "after"


class StepClock:
    """Durations of steps before, with and after the profiler."""

    def __init__(self) -> None:
        self.durations_ns: dict[str, list[int]] = {BEFORE: [], PROFILED: [], AFTER: []}
        self._since: int | None = None

    def restart(self) -> None:
        """Begin the next step now; the time since the last one counts nowhere."""
        self._since = time.perf_counter_ns()

    def lap(self, phase: str | None) -> None:
        """End a step and begin the next. Without a phase the step counts nowhere."""
        now = time.perf_counter_ns()
        if phase is not None and self._since is not None:
            self.durations_ns[phase].append(now - self._since)
        self._since = now

    def facts(self) -> dict[str, Any]:
        """Per phase that has steps: how many, their mean and their median in ns."""
        return {phase: summary(durations) for phase, durations in self.durations_ns.items() if durations}


def summary(durations_ns: list[int]) -> dict[str, Any]:
    """Number, mean and median of the durations of some steps."""
    return {
        "steps": len(durations_ns),
        "mean_ns": round(statistics.fmean(durations_ns)),
        "median_ns": round(statistics.median(durations_ns)),
    }
