"""Detects where steps end, from optimizer steps, updates and requests for batches, and how long they take."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .threads import OtherThreads, scheduled_ns
from .updates import Updates

MARKED = "prof.step"
OPTIMIZER = "optimizer"
UPDATE = "update"
BACKWARD = "backward"
DATALOADER = "dataloader"
MODULE = "module"

_TAKEOVER = 10
"""Number of steps of another optimizer, batches of another loader, or calls of another module, after which it replaces
an inactive leader."""
_AGREED = 4
"""Number of updates, or of batches after each of which gradients were computed: then they mark the steps of a training
whose optimizer is not seen."""
_PATIENCE = 20
"""Number of batches without an optimizer step after which the optimizer counts as unused."""
_PATIENCE_BACKWARD = 100
"""Number of batches, of backward passes, or of calls that build a graph, of a program that may still make its first
update."""
_REPEATED = 10
"""Number of calls of the outermost module, or of backward passes of a program without modules, that are no start-up any
more, but what the program repeats."""


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

    With several optimizers (a generator and its discriminator) the first one that stepped decides. A program that
    computes gradients trains: where no optimizer is seen to step, changes of its parameters end the steps, and where
    these are not seen either, its batches or backward passes. Only a program that computes none is inference, in which
    batches count, or where there are none, calls of the outermost module.

    Args:
        updates: Sees changes of parameters; None sees none.
    """

    def __init__(self, updates: Updates | None = None) -> None:
        self.source: str | None = None
        """What marks the steps so far: `MARKED` before `OPTIMIZER` before `UPDATE`, `BACKWARD`, `DATALOADER` and
        `MODULE`."""
        self.counts: Counter[str] = Counter()
        """Number of signs of each kind so far: `batches`, `backwards`, `calls` of outermost modules, and `optimizer`
        steps."""
        self.has_optimizer = False
        """Whether the program has made an optimizer."""
        self.trains = False
        """Whether the program has computed gradients."""
        self.updates = updates or Updates(None)
        self._optimizers, self._updated = _Leader(), _Leader()
        self._loaders, self._modules = _Leader(), _Leader()
        self._waited: Counter[str] = Counter()
        self._agreed = 0
        self._has_gradients = False

    def marked(self) -> None:
        """Record that the program marks the ends of its steps itself."""
        self.source = MARKED

    @property
    def needs_calls(self) -> bool:
        """Whether calls of modules may still mark the steps."""
        return self.source in {None, MODULE, UPDATE}

    def backward_begins(self) -> bool:
        """Record that gradients will be computed. Returns whether a step of the program ends before that."""
        self.counts["backwards"] += 1
        self._waited[BACKWARD] += 1
        is_end = self._is_update()
        self.updates.backward_begins()
        if is_end or self.source not in {None, BACKWARD} or self.counts["batches"] or self._waited[UPDATE]:
            return is_end
        may_update = self.has_optimizer or self.updates.knows_parameters
        return self._is_sure(BACKWARD, _PATIENCE_BACKWARD if may_update else _REPEATED)

    def backward_ended(self) -> bool:
        """Record that gradients were computed. Returns whether what counted as steps before turns out to be none."""
        self.updates.backward_ended()
        self._has_gradients = True
        was_wrong = not self.trains and self.source in {DATALOADER, MODULE}
        self.trains = True
        if was_wrong:
            self.source = None
            self._waited.clear()
        return was_wrong

    def optimizer_stepped(self, optimizer: int, *, in_backward: bool) -> bool:
        """Record that an optimizer has stepped. Returns whether a step of the program ends with it.

        Args:
            optimizer: `id` of the optimizer.
            in_backward: Whether it stepped inside the backward pass, where the profiler can neither start nor stop.
        """
        self.counts["optimizer"] += 1
        if in_backward or self.source == MARKED or not self._optimizers.leads(optimizer):
            return False
        self.source = OPTIMIZER
        self.updates.forget()
        return True

    def batch_wanted(self, loader: int) -> bool:
        """Record that a batch is requested. Returns whether a step of the program ends before it.

        Args:
            loader: `id` of the loader of the batches.
        """
        self.counts["batches"] += 1
        self._waited[DATALOADER] += 1
        if self._is_update():
            return True
        is_possible = self.source in {None, DATALOADER, MODULE} and not self._waited[UPDATE]
        if not is_possible or not self._loaders.leads(loader):
            return False
        self._agreed += self._has_gradients
        self._has_gradients = False
        return self._is_sure(DATALOADER, self._patience_with_batches())

    def _patience_with_batches(self) -> int:
        if not self.trains:
            return _PATIENCE if self.has_optimizer else 0
        is_all_known = self._agreed >= _AGREED and not self.updates.knows_parameters
        return _AGREED if is_all_known else _PATIENCE_BACKWARD

    def module_called(self, module: int, *, may_train: bool = False) -> bool:
        """Record that a module is called outside of all others. Returns whether a step of the program ends before it.

        Args:
            module: `id` of the module.
            may_train: Whether the call builds a graph, in training mode, of parameters that require gradients.
        """
        self.counts["calls"] += 1
        self._waited[MODULE] += 1
        if self._is_update():
            return True
        if self.source not in {None, MODULE} or self.trains or self.has_optimizer or not self._modules.leads(module):
            return False
        return self._is_sure(MODULE, _PATIENCE_BACKWARD if may_train else _REPEATED)

    def _is_update(self) -> bool:
        """Whether parameters have changed since gradients were computed, where no optimizer ends the steps."""
        if self.source in {MARKED, OPTIMIZER}:
            return False
        leads = [self._updated.leads(owner) for owner in self.updates.changed()]
        self._waited[UPDATE] += any(leads)
        return any(leads) and self._is_sure(UPDATE, _AGREED if self.has_optimizer else 0)

    def _is_sure(self, source: str, patience: int) -> bool:
        """Whether this sign marks the steps, because it came often enough."""
        if self.source != source and self._waited[source] <= patience:
            return False
        self.source = source
        return True


# Measures step times with and without the profiler.

BEFORE, PROFILED, AFTER = "before", "profiled", "after"

_ENOUGH = 3
"""Least number of steps that have quartiles."""
_KEPT_LAPS = 10_000
"""Number of steps of a phase whose times are kept (own choice: their median changes no more)."""


@dataclass(frozen=True)
class RecordedLaps:
    """What the steps of one recording took."""

    durations_ns: list[int]
    """Duration of each step in ns."""
    on_core: list[tuple[int, int]]
    """Time of each step on a core, and waiting for one, in ns; shorter or empty where it is unknown."""
    others_ns: list[int]
    """Time in ns of other threads of Python in each step; shorter or empty where it is unknown."""


class StepClock:
    """Collects what steps took before, during and after profiling.

    Args:
        threads: Measures the other threads of Python; None measures none.
    """

    def __init__(self, threads: OtherThreads | None = None) -> None:
        self._threads = threads
        self._others: dict[str, list[int]] = {BEFORE: [], PROFILED: [], AFTER: []}
        self.durations_ns: dict[str, list[int]] = {BEFORE: [], PROFILED: [], AFTER: []}
        self._on_core: dict[str, list[tuple[int, int]]] = {BEFORE: [], PROFILED: [], AFTER: []}
        self._since: int | None = None
        self._scheduled: tuple[int, int] | None = None

    def restart(self) -> None:
        """Begin the next step now, and discard the time since the end of the last one."""
        if self._threads is not None:
            self._threads.lap(is_recorded=False)
        self._since, self._scheduled = time.perf_counter_ns(), scheduled_ns()

    def lap(self, phase: str | None) -> None:
        """End a step and begin the next. Without a phase, what the step took is discarded."""
        now, scheduled = time.perf_counter_ns(), scheduled_ns()
        others = None if self._threads is None else self._threads.lap(is_recorded=phase == PROFILED)
        if phase is not None and self._since is not None:
            self._forget_old(phase)
            self._others[phase] += [] if others is None else [others]
            self.durations_ns[phase].append(now - self._since)
            if scheduled is not None and self._scheduled is not None:
                (cpu, queued), (cpu_before, queued_before) = scheduled, self._scheduled
                length = now - self._since  # of another clock than the parts, which are read right after it
                on_core = min(cpu - cpu_before, length)
                self._on_core[phase].append((on_core, min(queued - queued_before, length - on_core)))
        self._since, self._scheduled = now, scheduled

    def _forget_old(self, phase: str) -> None:
        """Keep memory bounded where a recording is waited for during days."""
        if len(self.durations_ns[phase]) >= _KEPT_LAPS:
            for kept in (self.durations_ns, self._on_core, self._others):
                del kept[phase][: _KEPT_LAPS // 2]

    def take_recorded(self) -> RecordedLaps:
        """The recorded steps, which are counted anew from now on."""
        laps = RecordedLaps(self.durations_ns[PROFILED], self._on_core[PROFILED], self._others[PROFILED])
        self.durations_ns[PROFILED], self._on_core[PROFILED], self._others[PROFILED] = [], [], []
        return laps

    def put_recorded(self, laps: RecordedLaps) -> None:
        """Replace the recorded steps."""
        self.durations_ns[PROFILED], self._on_core[PROFILED] = laps.durations_ns, laps.on_core
        self._others[PROFILED] = laps.others_ns

    def facts(self) -> dict[str, Any]:
        """Number of steps and what they took, in ns, for each phase that has steps."""
        return {
            phase: summary(durations)
            | _on_cores(durations, self._on_core[phase])
            | _of_others(len(durations), self._others[phase])
            for phase, durations in self.durations_ns.items()
            if durations
        }

    def recorded(self) -> list[dict[str, int]]:
        """What each recorded step took, in ns; empty where the system does not count times on cores."""
        each = zip(self.durations_ns[PROFILED], self._on_core[PROFILED], strict=False)
        return [{"ns": ns, "cpu_ns": cpu, "queued_ns": queued} for ns, (cpu, queued) in each]


def summary(durations_ns: list[int]) -> dict[str, Any]:
    """Number, mean and median of the durations of some steps."""
    return _quartiles("range_ns", durations_ns) | {
        "steps": len(durations_ns),
        "mean_ns": round(statistics.fmean(durations_ns)),
        "median_ns": round(statistics.median(durations_ns)),
    }


def _quartiles(name: str, durations_ns: list[int]) -> dict[str, list[int]]:
    """First and third quartile of three or more durations, under a name: how much they differ by themselves."""
    if len(durations_ns) < _ENOUGH:
        return {}
    first, _, third = statistics.quantiles(durations_ns, n=4, method="inclusive")
    return {name: [round(first), round(third)]}


def _on_cores(durations_ns: list[int], on_core: list[tuple[int, int]]) -> dict[str, Any]:
    """Times on a core and waiting for one, if known of every step: means, and quartiles without the waiting."""
    steps = len(durations_ns)
    if len(on_core) < steps:
        return {}
    cpu, queued = sum(own for own, _ in on_core), sum(waits for _, waits in on_core)
    ready = [ns - waits for ns, (_, waits) in zip(durations_ns, on_core, strict=False)]
    return {"cpu_ns": cpu // steps, "queued_ns": queued // steps} | _quartiles("undisturbed_range_ns", ready)


def _of_others(steps: int, others_ns: list[int]) -> dict[str, Any]:
    """Mean time of other threads of Python, if it is known of every step."""
    return {"others_ns": sum(others_ns) // steps} if len(others_ns) == steps else {}
