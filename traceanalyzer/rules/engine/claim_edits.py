"""Turns changes into edits of the causal model: claims become rows of events, times become shares of these rows.

The classes in `change` say what each change edits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import fsum

import numpy as np

from traceanalyzer.errors import UsageError
from traceanalyzer.rules.engine.change import (
    ON_DEVICE,
    CollectivesShorter,
    DeviceWork,
    HostTime,
    LoaderShorter,
    StartsEarlier,
    StepChange,
    WaitsGone,
)
from traceanalyzer.simulation import edits, selectors
from traceanalyzer.simulation.edits import Edit
from traceanalyzer.simulation.gathering import works_after
from traceanalyzer.simulation.measured_edits import LoaderTime
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure import event_rows
from traceanalyzer.structure.event_rows import EventRows
from traceanalyzer.structure.events import COMMUNICATION, ITS_OWN, LOADER, EventSet, Of
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_activity import loading_calls
from traceanalyzer.structure.host_waits import scaler_reads
from traceanalyzer.structure.idle_times import starvation
from traceanalyzer.structure.late_starts import late_starts
from traceanalyzer.structure.launch_calls import blocked_calls
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.structure.typical import mean
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_OF_THREADS = ("host", "call")
"""Kinds of occurrences whose places are threads."""

HostTimes = tuple[I64, I64, I64]
"""Thread, start and end of times of the host."""


class Resolver:
    """Finds the events that changes of one trace claim. Results are kept, because changes share them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.context = model.context
        self._loader = LoaderTime(model)
        self._steps = len(model.bounds.part)
        self._removed: dict[EventSet, float] = {}
        """Device time per step of what is launched at some places."""
        self._before_gaps: dict[tuple[int, ...], tuple[HostTimes, float] | None] = {}
        """Host time before launches that end gaps of some causes, and how long it is in ns per step."""

    def edits(self, change: StepChange, ns: float, gone: Mapping[EventSet, float]) -> tuple[Edit, ...]:
        """Edits that remove this much time per step from the events of a change.

        Args:
            change: The change.
            ns: Time in ns per step, within `change.removed`.
            gone: By claim, time in ns per step that other edits have already removed.
        """
        if ns <= 0:
            return ()
        match change:
            case LoaderShorter():
                return (self._loader.shorter(ns, gone.get(LOADER, 0.0)),)
            case WaitsGone():
                return (edits.UnblockEdit(self.unblocked(change)),)
            case HostTime():
                return self._on_host(change, ns, gone)
            case DeviceWork() | StartsEarlier() if COMMUNICATION not in change.claims:
                return self._on_device(change, ns, gone)
            case DeviceWork() | CollectivesShorter():
                return self._communication(ns, gone.get(COMMUNICATION, 0.0))
        raise TypeError(f"{type(change).__name__} is no change of a step")

    def _earlier(self, change: StartsEarlier, ns: float) -> tuple[Edit, ...]:
        """Late starts come earlier, each by the same share of its delay."""
        share = 1 - _left(ns, max(change.direct))
        late = late_starts(self.context).values()
        return tuple(edits.StartEdit(each.row, np.rint(share * each.late_ns).astype(np.int64)) for each in late)

    def _communication(self, ns: float, gone: float) -> tuple[Edit, ...]:
        """Collectives become shorter where nothing hides them, each by the same share of that time."""
        collectives = self.rows(COMMUNICATION)
        if collectives is None:
            return ()
        rows = collectives.device
        duration, exposed = (
            self.context.trace.device.dur_ns[rows],
            np.zeros(len(rows), np.int64),
        )
        total = 0.0
        for own, alone in self._exposed_of_devices(rows):
            exposed[own] = alone
            # the time per step is that of one device: others of the same process communicate beside it
            total = max(total, mean(float(alone[self._counted[rows[own]] > 0].sum()), self._steps))
        left = np.ceil(duration - exposed * (1 - _left(ns + gone, total))).astype(np.int64)
        return (edits.ScaleEdit(rows, 0.0, left),)

    def _exposed_of_devices(self, rows: I64) -> Iterator[tuple[I64, I64]]:
        """By device, which of some rows are its own, and for how many ns each of them runs alone on it."""
        device = self.context.trace.device
        is_other = np.ones(len(device), np.bool_)
        is_other[rows] = False
        for number, own in members(device.device[rows]):
            others = is_other & (device.device == number)
            busy = Intervals.union(device.start_ns[others], device.end_ns[others])
            start, end = device.start_ns[rows[own]], device.end_ns[rows[own]]
            yield own, end - start - busy.within(start, end)

    def _on_device(
        self, change: DeviceWork | StartsEarlier, ns: float, gone: Mapping[EventSet, float]
    ) -> tuple[Edit, ...]:
        """Let late kernels start sooner, or make kernels shorter: each by its part, or all of them if none is named."""
        if isinstance(change, StartsEarlier):
            return self._earlier(change, ns)
        claimed = self._claimed_work(change)
        if not claimed:
            rows = np.arange(len(self.context.trace.device))
            return (edits.ScaleEdit(rows, _left(ns, self._device_ns(rows))),)
        total = fsum(change.claims[events] for events, _ in claimed)
        shorter: list[Edit] = []
        for events, work in claimed:
            recorded = self._device_ns(work.device) - gone.get(events, 0.0)
            left = max(
                _left(ns * change.claims[events] / total, recorded),
                change.kept.get(events, 0.0),
            )
            shorter.append(edits.ScaleEdit(work.device, left))
            if change.host == ITS_OWN:
                shorter.append(edits.HostEdit(*self._host_side(work), left))
        if change.host not in (None, ITS_OWN):
            shorter.append(edits.HostEdit(*self._warm(self._times_of(change.host)), _left(ns, max(change.direct))))
        return (*shorter, *self._unheld_copies(change))

    def _claimed_work(self, change: StepChange) -> list[tuple[EventSet, EventRows]]:
        """The claimed sets that ran on a device."""
        named = [events for events, ns in change.claims.items() if events.of in ON_DEVICE and ns > 0]
        work = [(events, self.rows(events)) for events in named]
        return [(events, rows) for events, rows in work if rows is not None and len(rows.device)]

    def _host_side(self, work: EventRows) -> HostTimes:
        """The host time of operators, or of the calls that launch kernels; without that of first uses."""
        if len(work.thread):
            return self._warm((work.thread, work.start_ns, work.end_ns))
        return self._warm(self._times_of_calls(distinct(event_rows.launching_calls(self.context, work.device))))

    def _warm(self, times: HostTimes) -> HostTimes:
        """Host time without calls that load code: whatever comes first loads it, so removing one of them does not help.

        What is left of each thread does not overlap.
        """
        if not self._loading:
            return times
        thread, start, end = times
        every = {number: Intervals.union(start[rows], end[rows]) for number, rows in members(thread)}
        left = {number: spans - self._loading.get(number, Intervals.none()) for number, spans in every.items()}
        threads = [np.full(len(spans), number, np.int64) for number, spans in left.items()]
        spans = ((spans.start, spans.end) for spans in left.values())
        starts, ends = zip(*spans, strict=True) if left else ((), ())
        nothing = np.empty(0, np.int64)
        return (
            np.concatenate((nothing, *threads)),
            np.concatenate((nothing, *starts)),
            np.concatenate((nothing, *ends)),
        )

    @cached_property
    def _loading(self) -> dict[int, Intervals]:
        """By thread, when calls load code."""
        launches = self.context.trace.launches
        calls = np.setdiff1d(loading_calls(self.context), blocked_calls(self.context))
        start, end = launches.start_ns[calls], launches.end_ns[calls]
        return {number: Intervals.union(start[rows], end[rows]) for number, rows in members(launches.thread[calls])}

    def _unheld_copies(self, change: StepChange) -> tuple[Edit, ...]:
        """Calls that copy no longer block the host, and the host does not wait for their copies."""
        copies = self._copies(change)
        if not copies:
            return ()
        rows = np.concatenate(copies)
        calls = distinct(np.concatenate((event_rows.launching_calls(self.context, rows), self._waits_for(rows))))
        return edits.UnblockEdit(calls), edits.HostEdit(*self._times_of_calls(calls), 0.0)

    def _times_of_calls(self, calls: I64) -> HostTimes:
        launches = self.context.trace.launches
        return (
            launches.thread[calls].astype(np.int64),
            launches.start_ns[calls],
            launches.end_ns[calls],
        )

    def _copies(self, change: StepChange) -> list[I64]:
        """The device events of copies that a change claims."""
        copies = [self.rows(events) for events in change.claims if events.of is Of.COPIES]
        return [each.device for each in copies if each is not None]

    def _waits_for(self, rows: I64) -> I64:
        """Calls that return when one of some device events has ended."""
        host, device = self._model.graph.host, self._model.graph.device
        is_held = (host.held_by >= 0) & np.isin(np.append(device.row, NO_PARENT)[host.held_by], rows)
        calls: I64 = host.call[is_held]
        return calls

    def unblocked(self, change: WaitsGone) -> I64:
        """The calls that no longer wait: for claimed copies, else in claimed operators, else for a whole device.

        What AMP's gradient scaler reads is needed.
        """
        copies = self._copies(change)
        if copies:
            return self._waits_for(np.concatenate(copies))
        operators = [events.name for events in change.claims if events.of is Of.OPERATOR]
        waits = [self._waiting_calls(name) for name in operators or ("*DeviceSynchronize*",)]
        calls = [each.calls for each in waits if each is not None]
        found = np.concatenate(calls) if calls else np.empty(0, np.int64)
        return found[~is_among(found, scaler_reads(self.context))]

    def _on_host(self, change: HostTime, ns: float, gone: Mapping[EventSet, float]) -> tuple[Edit, ...]:
        """Shorten the named host time, else that for which the device waits, else all of it."""
        times = self.named_times(change)
        if times is not None:
            missing = fsum(gone.get(events, 0.0) for events in change.named)
            if change.within is None:
                whole, times = self._host_ns(*times), self._warm(times)
                ns = max(0.0, ns - (whole - self._host_ns(*times)))
            return self._named_host_time(change, ns, times, missing)
        exposed = ns if change.exposed is None else min(ns, max(change.exposed))
        starved = self._starved(change.claims)
        if starved is None:
            return self._any_host_time(exposed, 0.0)
        before_launches, there = starved
        missing = fsum(gone.get(events, 0.0) for events in change.claims if events.of is Of.IDLE)
        return (edits.HostEdit(*before_launches, _left(exposed, there - missing)),)

    def _named_host_time(self, change: HostTime, ns: float, times: HostTimes, missing: float) -> tuple[Edit, ...]:
        """Shorten some host time, of which other changes have already taken a part."""
        there = max(0.0, self._host_ns(*times) - missing)
        shorter = edits.HostEdit(*times, _left(ns, there))
        if change.device is not None:
            return shorter, *self._launched_within(times, ns, there)
        if ns > there and change.within is None:
            # time removed beyond the named events is time around them: in a loop, the time between its calls
            return shorter, *self._any_host_time(ns - there, there)
        return (shorter,)

    def named_times(self, change: HostTime) -> HostTimes | None:
        """The host time of the sets that a change names; None if it names none, or the trace has none of them."""
        found = [times for times in map(self._times_of, change.named) if len(times[0])]
        if not found:
            return None
        thread, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
        return thread, start, end

    def _times_of(self, events: EventSet | None) -> HostTimes:
        """The host time of a set of events; nothing where it has none."""
        rows = None if events is None else self.rows(events)
        if rows is not None:
            return rows.thread, rows.start_ns, rows.end_ns
        found = () if events is None else events.found(self.context)
        spans = [(each.place, each.start_ns, each.end_ns) for each in found if each.kind in _OF_THREADS]
        nothing = np.empty(0, np.int64)
        thread, start, end = (np.concatenate(column) for column in zip((nothing,) * 3, *spans, strict=True))
        return thread, start, end

    def _calls_within(self, times: HostTimes) -> Bool:
        """Mask of the calls that are made within some host time."""
        launches = self.context.trace.launches
        is_inside, of_thread = np.zeros(len(launches), np.bool_), rows_by(launches.thread)
        for thread, rows in members(times[0]):
            calls = of_thread(thread)
            is_inside[calls] = Intervals.union(times[1][rows], times[2][rows]).contains(launches.start_ns[calls])
        return is_inside

    def _launched_by(self, is_call: Bool) -> I64:
        """Rows of the device table that some calls launched."""
        return np.flatnonzero(take_or(is_call, self.context.links.launch, missing=False))

    def _launched_within(self, times: HostTimes, ns: float, there: float) -> tuple[Edit, ...]:
        """What is launched within host time that goes away goes with it, nothing in it waits; a rest is around it."""
        is_call = self._calls_within(times)
        no_waits = edits.UnblockEdit(np.flatnonzero(is_call))
        no_work = edits.ScaleEdit(self._launched_by(is_call), _left(ns, there))
        if ns <= there:
            return no_waits, no_work
        working = there - mean(float(self._waiting.within(*times[1:]).sum()), self._steps)
        return no_waits, no_work, *self._any_host_time(ns - there, working)

    def removed_device_ns(self, change: StepChange) -> float:
        """Device time per step in ns of what a change of host time removes with it."""
        if not isinstance(change, HostTime) or change.device is None or change.within is None:
            return 0.0
        if change.within not in self._removed:
            launched = self._launched_by(self._calls_within(self._times_of(change.within)))
            self._removed[change.within] = self._device_ns(launched)
        return self._removed[change.within]

    def _any_host_time(self, ns: float, named: float) -> tuple[Edit, ...]:
        """Host time that is not named becomes shorter, all by the same share."""
        every = self.host
        return (edits.HostEdit(every.thread, every.start_ns, every.end_ns, _left(ns, self._working_ns - named)),)

    def _starved(self, claims: Mapping[EventSet, float]) -> tuple[HostTimes, float] | None:
        """Host time before launches that came too late for the device, mostly for the claimed causes; and in ns a step.

        Before the launch that ends a gap, as much host time as the gap is long: with less of it, the gap is shorter.
        """
        causes = tuple(CAUSES.index(key.name) for key in claims if key.of is Of.IDLE and key.name in CAUSES)
        if causes not in self._before_gaps:
            self._before_gaps[causes] = self._before_launches(causes)
        return self._before_gaps[causes]

    def _before_launches(self, causes: Sequence[int]) -> tuple[HostTimes, float] | None:
        starved, launches = self.context.cached(starvation), self.context.trace.launches
        gap_ns = starved.end_ns - starved.start_ns
        # of gaps with several causes, what else caused them must go first
        is_mostly_these = 2 * starved.by_cause[:, list(causes)].sum(axis=1) > gap_ns
        rows = np.flatnonzero(is_mostly_these)
        rows = rows[self._model.judged.contains(launches.start_ns[starved.launch[rows]])]
        if not len(rows):
            return None
        thread = launches.thread[starved.launch[rows]].astype(np.int64)
        end = launches.start_ns[starved.launch[rows]]
        start = end - gap_ns[rows]
        waiting = mean(self._waiting.within(start, end).sum(), self._steps)
        return (thread, start, end), float(self._host_ns(thread, start, end) - waiting)

    def rows(self, events: EventSet) -> EventRows | None:
        """The rows of a set of events that has a name; None if the trace has none, or if no table counts them."""
        return event_rows.rows_of(self.context, events)

    @cached_property
    def host(self) -> EventRows:
        """All time of host threads but waits for a loader."""
        return selectors.select(self.context, "host")

    def _waiting_calls(self, name: str) -> EventRows | None:
        try:
            return selectors.waiting_calls(self.context, name)
        except UsageError:
            return None

    @cached_property
    def _counted(self) -> I64:
        """Duration of each row of the device table that the steps are made of; 0 for others."""
        device = self._model.graph.device
        is_of_steps = np.zeros(len(device), np.bool_)
        is_of_steps[self._model.bounds.events] = True
        counted = is_of_steps if is_of_steps.any() else device.is_judged
        duration = np.zeros(len(self.context.trace.device), np.int64)
        duration[device.row[counted]] = device.dur_ns[counted]
        return duration

    def _device_ns(self, rows: I64) -> float:
        """Time of device events in ns per step; of devices, which work at the same time, that of the longest."""
        device = self.context.trace.device.device[rows]
        return mean(
            float(max((self._counted[rows[own]].sum() for _, own in members(device)), default=0)),
            self._steps,
        )

    @cached_property
    def _working_ns(self) -> float:
        """Time in ns per step in which the critical thread waits neither for a device nor for the loader."""
        host, critical = self._model.graph.host, self.context.cached(owner_index).critical
        threads = [thread for thread in (critical.main, critical.engine) if thread is not None]
        counted = host.is_judged & ~host.in_loader & np.isin(host.thread, threads)
        return mean(float(host.cost_ns[counted].sum()), self._steps)

    @cached_property
    def _waiting(self) -> Intervals:
        """When calls run that device events block; this is not the host's own time."""
        host, device = self._model.graph.host, self._model.graph.device
        launches = self.context.trace.launches
        points = np.flatnonzero((host.held_by >= 0) & (host.call != NO_PARENT))
        calls = host.call[points]
        ended = (device.start_ns + device.dur_ns)[host.held_by[points]]
        until = np.where(works_after(self.context, host)[points], ended, launches.end_ns[calls])
        return Intervals.union(launches.start_ns[calls], np.maximum(until, launches.start_ns[calls]))

    def _host_ns(self, thread: I64, start: I64, end: I64) -> float:
        """Time in ns per step in which some host time is that of the critical thread; else of the thread with most."""
        critical = self.context.cached(owner_index).critical
        by_thread = {
            number: self._model.judged & Intervals.union(start[rows], end[rows]) for number, rows in members(thread)
        }
        none = Intervals.none()
        own = (by_thread.get(critical.main, none) - critical.handed).length
        if critical.engine is not None:
            own += (by_thread.get(critical.engine, none) & critical.handed).length
        longest = max((times.length for times in by_thread.values()), default=0)
        return mean(own or longest, self._steps)


def _left(ns: float, total: float) -> float:
    """The share that is left of some time."""
    return max(0.0, 1.0 - ns / total) if total > 0 else 1.0
