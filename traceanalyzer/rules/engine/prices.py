"""The savings of changes, alone and together, by replays of the dependencies of a trace.

A change is replayed with the least, the middle and the most of the time that it removes; the middle is the point
estimate. (For waits that may all be necessary, and for what waits for a loader may absorb, it is the middle of two
replays, see `Prices._ways`.) The interval also covers
two uncertainties of the recording, each replayed at both ends: parts that the model does not explain (residuals), kept
and dropped; and the cost of recording on the host, from nothing to the cost measured elsewhere
(`simulation.measured_edits`). With a capture, the duration of a step without the profiler is known. Then the cost of
recording is chosen so that the replayed step has this duration, and a saving is its share of the replayed step times
the step without the profiler; but recording does not slow down waiting for the loader, so this part of a saving is at
most the whole waiting, and beside a device it may slow down the rest of the step by up to a fifth more. The interval
between these replays is widened by the variation of steps (`variation`), but not beyond the time that the changes
remove, or what replays save if that is more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from statistics import fmean

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.loader import in_workers
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Relief, Saving
from traceanalyzer.rules.engine.budget import GAIN_SHARE, Budget
from traceanalyzer.rules.engine.change import DeviceWork, Fix, Interval, ProcessesReady, StepChange, WaitsGone
from traceanalyzer.rules.engine.claim_edits import Resolver
from traceanalyzer.simulation import critical_path, measured_edits, variation
from traceanalyzer.simulation.edits import Edit
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure import typical
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.table import I64

_MATTERS = 0.005
"""Share of the step: if recording costs less, it is not replayed without that (own choice; texts have two digits)."""
_MOST_TIMES = 5.0
"""By at most this factor an event costs more than it did where its cost was measured (own choice)."""
_FEW = 8
"""Up to so many changes are tried one by one, although the last ones may add nothing (own choice)."""
_TRIALS = 3
"""Replays that find the cost of recording that explains how much longer recorded steps are."""
_UNEVEN = 0.2
"""Greatest share by which recording makes the rest of a step longer than what changes remove (own choice)."""
_WITHOUT_PROFILER = Text(
    "saving-without-profiler",
    "{basis}; the same share of a step without the profiler, which takes {plain:ns}",
    note="basis says how the saving was estimated, without a full stop",
)
_MORE = 1.05
"""A replay that saves so many times what a change takes away saves other time as well (own choice)."""
_WITH_HOST = Text(
    "saving-with-host",
    "{basis}; besides, the calls and waits of the CPU that go with it",
    note="basis says how the saving was estimated, without a full stop",
)
_NO_MORE = Text(
    "saving-no-more",
    "{basis}; no more than {most:ns}, for which the stream with most work does nothing or has this work",
    note="basis says how the saving was estimated, without a full stop; a stream of a GPU",
)

_ABSORBED = Text(
    "saving-absorbed",
    "{basis}; at least nothing, because nearly every step waits for workers of the DataLoader: where their pace is the "
    "limit, the wait grows by what is saved elsewhere",
    note="basis says how the saving was estimated, without a full stop",
)


class _Scenario(msgspec.Struct, frozen=True):
    """One replay: how much time changes remove, the cost of recording, and whether residuals are kept."""

    end: str
    """`low`, `point` or `high`."""
    cost: float
    """Cost of recording an event, as a multiple of the cost measured on another machine."""
    keeps_residuals: bool = True


@dataclass
class Prices:
    """Prices of changes in one trace, by a model that does not abstain."""

    model: Model
    plain_ns: float | None = None
    """Duration of a step without the profiler, if a capture measured it."""
    resolver: Resolver = field(init=False)
    _steps_ns: dict[tuple[object, ...], float] = field(init=False, default_factory=dict)
    """Steps that were replayed: by changes and scenario."""
    _durations: dict[tuple[int, ...], I64] = field(init=False, default_factory=dict)
    """By changes, the duration of each step in the most likely scenario."""
    _changes: dict[int, StepChange] = field(init=False, default_factory=dict)
    """Kept objects by id, so that no other object gets the same id."""
    _recording: dict[float, Edit] = field(init=False, default_factory=dict)
    """By cost, the edits that take the cost of recording away."""
    _scenarios: tuple[_Scenario, ...] = field(init=False)
    """Low, point and high; then the uncertainties of the recording."""

    def __post_init__(self) -> None:
        self.resolver = Resolver(self.model)
        most = self._measured_cost() if self.plain_ns is None else self._calibrated_cost(self.plain_ns)
        likely, other = (0.0, most) if self.plain_ns is None else (most, 0.0)
        found = [_Scenario(end, likely) for end in ("low", "point", "high")]
        found.append(_Scenario("point", likely, keeps_residuals=False))
        found += [_Scenario(end, other) for end in ("low", "high") if most]
        self._scenarios = tuple(found)

    @property
    def _likely(self) -> _Scenario:
        """The scenario that gives the point estimate."""
        return self._scenarios[1]

    def saving(self, change: StepChange, budget: Budget) -> Saving:
        """The saving of a change alone."""
        gains = self._gains((change,), self._around((change,)))
        wall = self._interval((change,), gains, budget)
        most, basis = self._physical((change,)), self._basis(change)
        if wall[1] > _MORE * max(change.direct):
            basis = _WITH_HOST(basis=basis)
        if self._is_absorbed(change):
            basis = _ABSORBED(basis=basis)
        return msgspec.structs.replace(
            budget.saving(change),
            wall_ns_per_step=wall,
            wall_share=self._shares(wall, budget),
            basis=basis if wall[1] < most else _NO_MORE(basis=basis, most=most),
            arithmetic=None,
            point_ns_per_step=gains[1],
            estimated_by="model",
            step_ns=self.plain_ns,
        )

    def _physical(self, changes: Sequence[StepChange]) -> float:
        """What changes can save of a step together in ns, whatever a replay says.

        What a stream runs takes its time however early it is launched: changes of the host save no more than the time
        for which the busiest stream does nothing, and changes of device work no more than that work besides. Waits are
        not to blame for time in which the host does something else, although a host that runs ahead might hide it.
        """
        room = typical.room_ns(self.model.context)
        if room is None or any(change.resource == "communication" for change in changes):
            return math.inf
        if all(_is_unsure(change) or _is_awaited(change) for change in changes):
            room = min(room, fsum(max(change.direct) for change in changes if _is_unsure(change)))
        work = fsum(max(change.direct) for change in changes if change.resource == "gpu")
        work += fsum(self.resolver.removed_device_ns(change) for change in changes)
        scale = 1.0 if self.plain_ns is None else self.plain_ns / (self.model.scale * self.model.recorded_ns)
        return (room + work) * scale

    def blocker(self, change: StepChange) -> str:
        """The resource other than its own that the step takes longest for with a change."""
        chains = critical_path.chains(self.model, self._edits((change,), self._likely))
        return max((name for name in chains if name != change.resource), key=lambda name: chains[name])

    def combine(self, budget: Budget, fixes: Sequence[Fix]) -> Combined | None:
        """All fixes together, the most valuable first; each row is what a fix adds to those before it.

        In each of the first three scenarios the rows add up to the total. None if nothing saves anything.
        """
        order = sorted(fixes, key=lambda fix: (-self._gain((fix.change,), self._likely), -fix.change.direct[1]))
        totals = self._totals([fix.change for fix in order])
        if len(totals) == 1:
            return None
        order = order[: len(totals) - 1]
        changes = [fix.change for fix in order]
        rows = [[after - before for before, after in zip(*pair, strict=True)] for pair in pairwise(totals)]
        gains = self._gains(changes, self._around(changes))
        wall = self._interval(changes, gains, budget)
        return Combined(
            fixes=tuple(
                Relief(fix.rule, fix.finding, (min(row), max(row)), row[1], (row[0], row[1], row[2]))
                for fix, row in zip(order, rows, strict=True)
            ),
            wall_ns_per_step=wall,
            wall_share=self._shares(wall, budget),
            next_bottleneck=critical_path.bottleneck(self.model, self._edits(changes, self._likely)),
            point_ns_per_step=gains[1],
            scenarios_ns_per_step=(gains[0], gains[1], gains[2]),
            estimated_by="model",
            step_ns=self.plain_ns,
        )

    def _interval(self, changes: Sequence[StepChange], gains: Sequence[float], budget: Budget) -> Interval:
        """The interval of a saving: between all replays, and with the variation of steps.

        Args:
            changes: The changes.
            gains: What they save in each scenario around them; the second one is the most likely.
            budget: Time of the recorded step.
        """
        step = self.plain_ns or budget.step
        physical = self._physical(changes)
        uneven = *self._whole_waits(changes), self._unevenly(gains)
        every = *gains, *(min(gain, physical) for gain in uneven)
        least, greatest = min(every), max(every)
        # what does not matter in any replay does not matter because steps differ
        varies = self._varies(changes) if greatest >= GAIN_SHARE * step else 0.0
        most = min(step, self._most(changes, greatest), physical)
        return variation.around((least, greatest), gains[1], varies, most)

    def _most(self, changes: Sequence[StepChange], replayed: float) -> float:
        """What can go away of a step at most in ns: what the changes take away, or what replays save, if that is more.

        Without the profiler it is one of other steps than those that were recorded.
        """
        most = max(replayed, math.fsum(max(change.removed) for change in changes))
        if self.plain_ns is None:
            return most
        self._step((), self._likely)
        return most * (1 + variation.of_work(self._durations[()]))

    def _whole_waits(self, changes: Sequence[StepChange]) -> list[float]:
        """What waits save if the profiler made the rest of the recorded step longer, but not them.

        Waits for the loader, for new workers at an epoch, and for other ranks take as long without it.
        """
        if self.plain_ns is None or not all(change.is_unstretched for change in changes):
            return []
        most = self._scenarios[2]
        return [min(self.plain_ns, self._step((), most) - self._step(changes, most))]

    def _unevenly(self, gains: Sequence[float]) -> float:
        """What changes save beside a device, if recording made the rest of the step longer more than what they remove.

        By how much it makes which calls longer is not known there. On a CPU the rules say which events are in a change.
        """
        if self.plain_ns is None or typical.room_ns(self.model.context) is None:
            return max(gains)
        overhead = self.model.scale * self.model.recorded_ns / self.plain_ns - 1
        return min(self.plain_ns, max(gains) * (1 + min(_UNEVEN, max(0.0, overhead))))

    def _varies(self, changes: Sequence[StepChange]) -> float:
        """How much a saving varies from step to step in ns, by the steps as recorded and with the changes.

        Without the profiler it is one of other steps than those that were recorded.
        """
        for each in ((), changes):
            self._step(each, self._likely)
        before, after = (self._durations[tuple(map(id, each))] for each in ((), changes))
        if self.plain_ns is None:
            return variation.of_savings(before, after)
        if len(before) < variation.FEWEST:  # two that are alike by chance do not tell how much others differ
            every = program_steps(self.model.context).every
            before = after = every.end_ns - every.start_ns
        usual = float(np.median(before))
        return self.plain_ns / usual * variation.of_other_steps(before, after) if usual else 0.0

    def _totals(self, changes: Sequence[StepChange]) -> list[list[float]]:
        """Joint saving of the first N changes, for each N, without the last ones if they add nothing."""
        count = len(changes)
        if count > _FEW:
            count = self._needed(changes)
        totals = [self._gains(changes[:number], self._scenarios[:3]) for number in range(count + 1)]
        while len(totals) > 1 and totals[-1] == totals[-2]:
            totals.pop()
        return totals

    def _needed(self, changes: Sequence[StepChange]) -> int:
        """How many of the changes it takes until the others add nothing."""
        wanted = self._gains(changes, self._scenarios[:3])
        low, high = 0, len(changes)
        while low < high:  # gains never get less with more changes
            middle = (low + high) // 2
            if self._gains(changes[:middle], self._scenarios[:3]) == wanted:
                high = middle
            else:
                low = middle + 1
        return high

    def _around(self, changes: Sequence[StepChange]) -> list[_Scenario]:
        """The scenarios between which changes lie.

        Host time is worth most as recorded, all other time if recording took much of the host's.
        """
        ends = {"low" if change.resource == "host" else "high" for change in changes}
        likely = self._likely.cost
        found = []
        for scenario in self._scenarios:
            end = scenario.end if scenario.cost >= likely else {"low": "high", "high": "low"}[scenario.end]
            if scenario.cost == likely or end in ends:
                found.append(scenario)
        return found

    def _gains(self, changes: Sequence[StepChange], scenarios: Sequence[_Scenario]) -> list[float]:
        """Time in ns by which the program's step gets shorter with some changes, in each scenario."""
        return [self._gain(changes, scenario) for scenario in scenarios]

    def _gain(self, changes: Sequence[StepChange], scenario: _Scenario) -> float:
        before = self._step((), scenario)
        gain = before - self._step(changes, scenario)
        gain = gain if self.plain_ns is None or not before else self.plain_ns * gain / before
        return min(gain, self._physical(changes))

    def _step(self, changes: Sequence[StepChange], scenario: _Scenario) -> float:
        """Duration of the replayed step in ns."""
        self._changes.update((id(change), change) for change in changes)
        fixed = (not self._is_absorbed(each) and len(set(each.removed)) == 1 for each in changes)
        if all(fixed):
            scenario = msgspec.structs.replace(scenario, end="point")
        own = tuple(map(id, changes))
        key = (own, scenario)
        if key not in self._steps_ns:
            ways = [self._edits(each, scenario) for each in self._ways(changes, scenario)]
            if scenario == self._likely:
                found = [self.model.elapsed_and_steps_ns(edits, keep_residuals=True) for edits in ways]
                self._durations[own] = np.mean([steps for _, steps in found], axis=0).astype(np.int64)
                self._steps_ns[key] = self.model.scale * fmean(elapsed for elapsed, _ in found)
            else:
                keeps = scenario.keeps_residuals
                self._steps_ns[key] = fmean(self.model.step_ns(edits, keep_residuals=keeps) for edits in ways)
        return self._steps_ns[key]

    def _ways(self, changes: Sequence[StepChange], scenario: _Scenario) -> list[Sequence[StepChange]]:
        """The changes to replay in a scenario. The step is the mean of the replays.

        A wait can only be kept or removed; half a wait cannot be replayed. So the most likely saving of waits that may
        all be necessary is the middle between a replay with them and one without. The same holds for changes that
        waits for workers of a loader may absorb: at least they save nothing.
        """
        absorbed = {id(each) for each in changes if self._is_absorbed(each)}
        unsure = absorbed | {id(each) for each in changes if _is_unsure(each)}
        if scenario.end == "low":
            return [[each for each in changes if id(each) not in absorbed]]
        if scenario.end == "high" or not unsure:
            return [changes]
        return [[each for each in changes if id(each) not in unsure], changes]

    def _is_absorbed(self, change: StepChange) -> bool:
        """Whether waits for workers of a loader may grow by all that a change of the host or the device saves."""
        is_elsewhere = change.resource in ("host", "gpu") and not isinstance(change, ProcessesReady)
        return is_elsewhere and self.model.context.cached(in_workers.set_the_pace)

    def _edits(self, changes: Sequence[StepChange], scenario: _Scenario) -> list[Edit]:
        taken: dict[EventSet, float] = {}
        found = [edit for change in changes for edit in self.resolver.edits(*_unclaimed(change, scenario.end, taken))]
        return [*found, *self._without_recording(scenario.cost)]

    def _without_recording(self, cost: float) -> tuple[Edit, ...]:
        """The edit that takes the cost of recording off the host's time; nothing if it cost nothing."""
        if cost and cost not in self._recording:
            self._recording[cost] = measured_edits.without_recording(self.model.context, self.model.windows, cost)
        return (self._recording[cost],) if cost else ()

    def _measured_cost(self) -> float:
        """1 if the step would be noticeably shorter without what recording cost elsewhere, else 0."""
        recorded = self.model.step_ns(())
        return 1.0 if recorded - self.model.step_ns(self._without_recording(1.0)) >= _MATTERS * recorded else 0.0

    def _calibrated_cost(self, plain_ns: float) -> float:
        """The cost with which the replayed step is as long as one without the profiler, as far as that is possible."""
        recorded = self.model.step_ns(())
        cost, gone = 1.0, 0.0
        for _ in range(_TRIALS if plain_ns < recorded else 0):
            gone = recorded - self.model.step_ns(self._without_recording(cost))
            if gone <= 0:
                break
            cost = min(_MOST_TIMES, cost * (recorded - plain_ns) / gone)
        return cost if gone >= _MATTERS * recorded else 0.0

    def _shares(self, wall: Interval, budget: Budget) -> Interval:
        step = self.plain_ns or budget.step
        return (wall[0] / step, wall[1] / step) if step else (0.0, 0.0)

    def _basis(self, change: StepChange) -> Message:
        if self.plain_ns is None:
            return change.replayed_basis
        return _WITHOUT_PROFILER(basis=change.replayed_basis, plain=self.plain_ns)


def _is_unsure(change: StepChange) -> bool:
    """Whether a change removes waits that may all be necessary."""
    return isinstance(change, WaitsGone) and change.is_unsure


def _is_awaited(change: StepChange) -> bool:
    """Whether a change removes device work that the host waits for as before, where any is left."""
    return isinstance(change, DeviceWork) and change.is_awaited


def _unclaimed(
    change: StepChange, end: str, taken: dict[EventSet, float]
) -> tuple[StepChange, float, Mapping[EventSet, float]]:
    """A change without the claims of changes before it, its time at one end in ns per step, and the time taken so far.

    The claims of the change are added to the time taken.
    """
    whole = _ENDS[end](change.removed)
    most = max(change.removed)
    gone = dict(taken)
    if isinstance(change, WaitsGone):  # a wait that another change removes, too, is not there twice
        return change, whole, gone
    own = {key: ns * whole / most if most else 0.0 for key, ns in change.shared.items()}
    left = {key: max(0.0, ns - taken.get(key, 0.0)) for key, ns in own.items()}
    taken.update({key: max(ns, taken.get(key, 0.0)) for key, ns in own.items()})
    rest = max(0.0, whole - math.fsum(own.values()) + math.fsum(left.values()))
    is_of_claims = change.shared is change.claims and any(left.values())
    return replace(change, claims=left) if is_of_claims else change, rest, gone


_ENDS: dict[str, Callable[[Interval], float]] = {"low": min, "point": lambda ends: math.fsum(ends) / 2, "high": max}
