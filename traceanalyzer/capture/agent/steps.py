"""Detects where steps end, from optimizer steps and requests for batches, and measures how long they take."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import Any

MARKED = "prof.step"
OPTIMIZER = "optimizer"
DATALOADER = "dataloader"

_TAKEOVER = 10
"""Number of steps of another optimizer, or batches of another loader, after which it replaces an inactive leader."""
_PATIENCE = 100
"""Number of batches without an optimizer step after which the optimizer counts as unused."""
_PATIENCE_BACKWARD = 1000
"""Like `_PATIENCE` while gradients are computed, which may be accumulated over many batches."""


class _Leader:
    """The optimizer or loader that marks the steps: the first, until it stops and another continues."""

    def __init__(self) -> None:
        self._leader: int | None = None
        self._others: Counter[int] = Counter()

    def leads(self, identity: int) -> bool:
        if self._leader is None:
            self._leader = identity
        if identity == self._leader:
            self._others.clear()
            return True
        self._others[identity] += 1
        if self._others[identity] < _TAKEOVER:
            return False
        self._leader = identity
        self._others.clear()
        return True


class StepFinder:
    """Decides which of the observed calls end a step.

    With several optimizers (a generator and its discriminator) the first one that stepped decides. Batches count only
    where optimizers do not: in inference, and where optimizers step inside the backward pass.
    """

    def __init__(self) -> None:
        self.source: str | None = None
        """What marks the steps so far: `MARKED` before `OPTIMIZER` before `DATALOADER`."""
        self._optimizers = _Leader()
        self._loaders = _Leader()
        self._has_optimizer = False
        self._has_backward = False
        self._batches = 0

    def marked(self) -> None:
        """Record that the program marks the ends of its steps itself."""
        self.source = MARKED

    def optimizer_made(self) -> None:
        """Record that the program has an optimizer, so that it will probably step."""
        self._has_optimizer = True

    def backward_done(self) -> None:
        """Record that gradients were computed."""
        self._has_backward = True

    def optimizer_stepped(self, optimizer: int, *, in_backward: bool) -> bool:
        """Record that an optimizer has stepped. Returns whether a step of the program ends with it.

        Args:
            optimizer: `id` of the optimizer.
            in_backward: Whether it stepped inside the backward pass, where the profiler can neither start nor stop.
        """
        if in_backward or self.source == MARKED or not self._optimizers.leads(optimizer):
            return False
        self.source = OPTIMIZER
        return True

    def batch_wanted(self, loader: int) -> bool:
        """Record that a batch is requested. Returns whether a step of the program ends before it.

        Args:
            loader: `id` of the loader of the batches.
        """
        if self.source in {MARKED, OPTIMIZER} or not self._loaders.leads(loader):
            return False
        self._batches += 1
        if self._batches <= self._patience():
            return False
        self.source = DATALOADER
        return True

    def _patience(self) -> int:
        if self._has_backward:
            return _PATIENCE_BACKWARD
        return _PATIENCE if self._has_optimizer else 0


# Measures step times with and without the profiler.

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
