"""Turns changes into edits of the causal model: claims become rows of events, times become shares of these rows.

A table in `change` shows which claims become which edits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import fsum

import numpy as np

from traceanalyzer.errors import UsageError
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.simulation import edits, selectors
from traceanalyzer.simulation.edits import Edit
from traceanalyzer.simulation.gathering import works_after
from traceanalyzer.simulation.measured_edits import LoaderTime
from traceanalyzer.simulation.model import Model
from traceanalyzer.simulation.selectors import Selected, of_nodes
from traceanalyzer.structure.events import COMMUNICATION, LOADER, WAITS, EventSet, Of
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.idle_times import starvation
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.structure.typical import mean
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

ON_DEVICE = (Of.OPERATOR, Of.KERNEL, Of.COPIES)
ON_HOST = (Of.OPERATOR, Of.OWNER, Of.COMMUNICATION)
_KINDS = {Of.OPERATOR: "operator", Of.KERNEL: "kernel", Of.COPIES: "kernel", Of.OWNER: "owner"}
"""How selectors call the sets that have names."""

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
        self._found: dict[EventSet, Selected | None] = {}
        self._removed: dict[EventSet, float] = {}
        """Device time per step of what is launched at some places."""
        self._calls: dict[str, I64] = {}
        """The host nodes that are calls of an operator, by its name."""
        self._before_gaps: dict[tuple[int, ...], tuple[HostTimes, float] | None] = {}
        """Host time before launches that end gaps of some causes, and how long it is in ns per step."""

    def edits(self, change: TimeSaved, ns: float, gone: Mapping[EventSet, float]) -> tuple[Edit, ...]:
        """Edits that remove this much time per step from the events of a change.

        Args:
            change: The change.
            ns: Time in ns per step, within `change.removed`.
            gone: By claim, time in ns per step that other edits have already removed.
        """
        if ns <= 0:
            return ()
        if change.resource == "loader":
            return (self._loader.shorter(ns, gone.get(LOADER, 0.0)),)
        if change.resource == "host":
            return self._on_host(change, ns, gone)
        if change.resource == "communication" or COMMUNICATION in change.claims:
            return self._communication(ns, gone.get(COMMUNICATION, 0.0))
        return self._on_device(change, ns, gone)

    def _communication(self, ns: float, gone: float) -> tuple[Edit, ...]:
        """Collectives become shorter where nothing hides them, each by the same share of that time."""
        found = self.select(COMMUNICATION)
        if found is None:
            return ()
        rows, device = found.device, self.context.trace.device
        others = np.ones(len(device), np.bool_)
        others[rows] = False
        busy = Intervals.union(device.start_ns[others], device.end_ns[others])
        exposed = device.dur_ns[rows] - busy.within(device.start_ns[rows], device.end_ns[rows])
        total = mean(float(exposed[self._counted[rows] > 0].sum()), self._steps)
        left = np.ceil(device.dur_ns[rows] - exposed * (1 - _left(ns + gone, total))).astype(np.int64)
        return (edits.ScaleEdit(rows, 0.0, left),)

    def _on_device(self, change: TimeSaved, ns: float, gone: Mapping[EventSet, float]) -> tuple[Edit, ...]:
        """Make kernels shorter: the claimed ones, each by its part, or all kernels if none is named."""
        named = [(key, self.select(key), claim) for key, claim in change.claims.items() if key.of in ON_DEVICE]
        claims = [(key, each, claim) for key, each, claim in named if each is not None and claim > 0]
        claims = [row for row in claims if len(row[1].device)]
        if not claims:
            rows = np.arange(len(self.context.trace.device))
            return (edits.ScaleEdit(rows, _left(ns, self._device_ns(rows))),)
        total = fsum(claim for _, _, claim in claims)
        found: list[Edit] = []
        for key, each, claim in claims:
            left = _left(ns * claim / total, self._device_ns(each.device) - gone.get(key, 0.0))
            found.append(edits.ScaleEdit(each.device, left))
            if change.is_removed and change.calls is None:
                found.append(edits.HostEdit(*self._host_side(each), left))
        if change.calls is not None:
            found.append(edits.HostEdit(*self._times(change.calls), _left(ns, max(change.direct))))
        return (*found, *self._unheld_copies(change))

    def _host_side(self, each: Selected) -> HostTimes:
        """The host time of operators, or of the calls that launch kernels."""
        if len(each.thread):
            return each.thread, each.start_ns, each.end_ns
        return self._times_of_calls(distinct(self._launches(each.device)))

    def _unheld_copies(self, change: TimeSaved) -> tuple[Edit, ...]:
        """Calls that copy no longer block the host, and the host does not wait for their copies."""
        copies = self._copies(change)
        if not copies:
            return ()
        rows = np.concatenate(copies)
        calls = distinct(np.concatenate((self._launches(rows), self._waits_for(rows))))
        return edits.UnblockEdit(calls), edits.HostEdit(*self._times_of_calls(calls), 0.0)

    def _launches(self, rows: I64) -> I64:
        """Rows of the launch table that put some device events there."""
        launch = self.context.links.launch[rows]
        found: I64 = launch[launch != NO_PARENT]
        return found

    def _times_of_calls(self, calls: I64) -> HostTimes:
        launches = self.context.trace.launches
        return launches.thread[calls].astype(np.int64), launches.start_ns[calls], launches.end_ns[calls]

    def _copies(self, change: TimeSaved) -> list[I64]:
        """The device events of copies that a change claims."""
        found = [self.select(key) for key in change.claims if key.of is Of.COPIES]
        return [each.device for each in found if each is not None]

    def _waits_for(self, rows: I64) -> I64:
        """Calls that return when one of some device events has ended."""
        host, device = self._model.graph.host, self._model.graph.device
        held = (host.held_by >= 0) & np.isin(np.append(device.row, NO_PARENT)[host.held_by], rows)
        calls: I64 = host.call[held]
        return calls

    def _on_host(self, change: TimeSaved, ns: float, gone: Mapping[EventSet, float]) -> tuple[Edit, ...]:
        """Remove waits or host time: the named part, else the part for which the device waits, else all of it."""
        calls = self.unblocked(change)
        if calls is not None:
            return (edits.UnblockEdit(calls),)
        if change.is_at:
            times = self._times(change.at)
            there = self._host_ns(*times)
            found = edits.HostEdit(*times, _left(ns, there))
            return (found, *self._launched_within(times, ns, there)) if change.is_removed else (found,)
        named = change.within or tuple(key for key in change.claims if key.of in ON_HOST)
        missing = fsum(gone.get(key, 0.0) for key in named)
        parts = [each for each in map(self.select, named) if each is not None and len(each.thread)]
        if parts:
            thread, start, end = (
                np.concatenate([getattr(each, name) for each in parts]) for name in ("thread", "start_ns", "end_ns")
            )
            there = max(0.0, self._host_ns(thread, start, end) - missing)
            found = edits.HostEdit(thread, start, end, _left(ns, there))
            # time removed beyond the named events is time around them: in a loop, the time between its calls
            return (found, *self._any_host_time(ns - there, there)) if ns > there and not change.within else (found,)
        least = ns if change.exposed is None else min(ns, max(change.exposed))
        starved = self._starved(change.claims)
        if starved is not None:
            missing = fsum(gone.get(key, 0.0) for key in change.claims if key.of is Of.IDLE)
            return (edits.HostEdit(*starved[0], _left(least, starved[1] - missing)),)
        return self._any_host_time(least, 0.0)

    def _times(self, at: EventSet | None) -> HostTimes:
        """The host time that a change finds by itself."""
        found = () if at is None else at.found(self.context)
        spans = [(each.place, each.start_ns, each.end_ns) for each in found if each.kind in _OF_THREADS]
        nothing = np.empty(0, np.int64)
        thread, start, end = (np.concatenate(each) for each in zip((nothing,) * 3, *spans, strict=True))
        return thread, start, end

    def _calls_within(self, times: HostTimes) -> Bool:
        """Mask of the calls that are made within some host time."""
        launches = self.context.trace.launches
        inside, of_thread = np.zeros(len(launches), np.bool_), rows_by(launches.thread)
        for thread, rows in members(times[0]):
            own = of_thread(thread)
            inside[own] = Intervals.union(times[1][rows], times[2][rows]).contains(launches.start_ns[own])
        return inside

    def _launched_within(self, times: HostTimes, ns: float, there: float) -> tuple[Edit, ...]:
        """What is launched within host time that goes away goes with it, nothing in it waits; a rest is around it."""
        calls = self._calls_within(times)
        events = np.flatnonzero(take_or(calls, self.context.links.launch, missing=False))
        gone = edits.UnblockEdit(np.flatnonzero(calls)), edits.ScaleEdit(events, _left(ns, there))
        working = there - mean(float(self._waiting.within(*times[1:]).sum()), self._steps)
        return (*gone, *self._any_host_time(ns - there, working)) if ns > there else gone

    def removed_device_ns(self, change: TimeSaved) -> float:
        """Device time per step in ns of what a change of host time removes with it."""
        if change.resource != "host" or change.at is None or not (change.is_at and change.is_removed):
            return 0.0
        if change.at not in self._removed:
            calls = self._calls_within(self._times(change.at))
            events = np.flatnonzero(take_or(calls, self.context.links.launch, missing=False))
            self._removed[change.at] = self._device_ns(events)
        return self._removed[change.at]

    def unblocked(self, change: TimeSaved) -> I64 | None:
        """The calls that no longer wait with a change; None for other changes."""
        copies = self._copies(change)
        if copies:
            return self._waits_for(np.concatenate(copies))
        return self._waits(change.claims) if is_about_waits(change.claims) else None

    def _any_host_time(self, ns: float, named: float) -> tuple[Edit, ...]:
        """Host time that is not named becomes shorter, all by the same share."""
        every = self.host
        if every is None:
            return ()
        return (edits.HostEdit(every.thread, every.start_ns, every.end_ns, _left(ns, self._working_ns - named)),)

    def _waits(self, claims: Mapping[EventSet, float]) -> I64:
        """The calls that no longer wait: those in the claimed operators, or else those that wait for a whole device."""
        named = [key.name for key in claims if key.of is Of.OPERATOR]
        found = [self._waiting_calls(name) for name in named or ("*DeviceSynchronize*",)]
        calls = [each.calls for each in found if each is not None]
        return np.concatenate(calls) if calls else np.empty(0, np.int64)

    def _starved(self, claims: Mapping[EventSet, float]) -> tuple[HostTimes, float] | None:
        """Host time before launches that came too late for the device, mostly for the claimed causes; and in ns a step.

        Before the launch that ends a gap, as much host time as the gap is long: with less of it, the gap is shorter.
        """
        causes = tuple(CAUSES.index(key.name) for key in claims if key.of is Of.IDLE and key.name in CAUSES)
        if causes not in self._before_gaps:
            self._before_gaps[causes] = self._before_launches(causes)
        return self._before_gaps[causes]

    def _before_launches(self, causes: tuple[int, ...]) -> tuple[HostTimes, float] | None:
        found, launches = self.context.cached(starvation), self.context.trace.launches
        time = found.by_cause[:, list(causes)].sum(axis=1)
        rows = np.flatnonzero(2 * time > found.end_ns - found.start_ns)  # what else caused the others must go first
        rows = rows[self._model.judged.contains(launches.start_ns[found.launch[rows]])]
        end, thread = launches.start_ns[found.launch[rows]], launches.thread[found.launch[rows]].astype(np.int64)
        times = thread, end - (found.end_ns - found.start_ns)[rows], end
        waiting = mean(self._waiting.within(*times[1:]).sum(), self._steps)
        return (times, float(self._host_ns(*times) - waiting)) if len(rows) else None

    def select(self, events: EventSet) -> Selected | None:
        """What is in a set of events; None if the trace has none, or if no table counts them."""
        if events not in self._found:
            self._found[events] = self._selected(events)
        return self._found[events]

    def _selected(self, events: EventSet) -> Selected | None:
        if events.of is Of.OPERATOR and events.shapes is not None:
            return of_nodes(self.context, events.name, self._with_shapes(events.name, events.shapes))
        if events == COMMUNICATION:
            return self._resource("communication")
        kind = _KINDS.get(events.of)
        return None if kind is None else selectors.exactly(self.context, kind, events.name)

    @cached_property
    def host(self) -> Selected | None:
        """All time of host threads but waits for a loader."""
        return self._resource("host")

    def _resource(self, name: str) -> Selected | None:
        try:
            return selectors.select(self.context, name)
        except UsageError:
            return None

    def _waiting_calls(self, name: str) -> Selected | None:
        try:
            return selectors.waiting_calls(self.context, name)
        except UsageError:
            return None

    def _with_shapes(self, name: str, shapes: str) -> I64:
        """The host nodes that are calls of an operator with these input shapes, ascending."""
        trace, host = self.context.trace, self.context.host
        if name not in self._calls:
            self._calls[name] = np.flatnonzero((host.name == trace.names.code(name)) & (host.kind == NodeKind.OPERATOR))
        nodes = self._calls[name]
        found: I64 = nodes[trace.host.shapes[host.row[nodes]] == trace.shapes.code(shapes)]
        return found

    @cached_property
    def _counted(self) -> I64:
        """Duration of each row of the device table that the steps are made of; 0 for others."""
        device = self._model.graph.device
        own = np.zeros(len(device), np.bool_)
        own[self._model.bounds.events] = True
        counted = own if own.any() else device.is_judged
        found = np.zeros(len(self.context.trace.device), np.int64)
        found[device.row[counted]] = device.dur_ns[counted]
        return found

    def _device_ns(self, rows: I64) -> float:
        """Time of device events in ns per step."""
        return mean(float(self._counted[rows].sum()), self._steps)

    @cached_property
    def _working_ns(self) -> float:
        """Time in ns per step in which the critical thread waits neither for a device nor for the loader."""
        host, found = self._model.graph.host, self.context.cached(owner_index).critical
        counted = (
            host.is_judged
            & ~host.in_loader
            & np.isin(host.thread, [each for each in (found.main, found.engine) if each is not None])
        )
        return mean(float(host.cost_ns[counted].sum()), self._steps)

    @cached_property
    def _waiting(self) -> Intervals:
        """When calls run that device events block; this is not the host's own time."""
        host, device = self._model.graph.host, self._model.graph.device
        launches = self.context.trace.launches
        points = np.flatnonzero((host.held_by >= 0) & (host.call != NO_PARENT))
        calls, ended = host.call[points], (device.start_ns + device.dur_ns)[host.held_by[points]]
        until = np.where(works_after(self.context, host)[points], ended, launches.end_ns[calls])
        return Intervals.union(launches.start_ns[calls], np.maximum(until, launches.start_ns[calls]))

    def _host_ns(self, thread: I64, start: I64, end: I64) -> float:
        """Time in ns per step in which some host time is that of the critical thread; else of the thread with most."""
        found = self.context.cached(owner_index).critical
        by_thread = {
            each: self._model.judged & Intervals.union(start[rows], end[rows]) for each, rows in members(thread)
        }
        none = Intervals.none()
        critical = (by_thread.get(found.main, none) - found.handed).length
        critical += 0 if found.engine is None else (by_thread.get(found.engine, none) & found.handed).length
        longest = max((times.length for times in by_thread.values()), default=0)
        return mean(critical or longest, self._steps)


def is_about_waits(claims: Mapping[EventSet, float]) -> bool:
    """Whether only waits for the device and the operators around them are removed."""
    return WAITS in claims and all(key == WAITS or key.of is Of.OPERATOR for key in claims)


def _left(ns: float, total: float) -> float:
    """The share that is left of some time."""
    return max(0.0, 1.0 - ns / total) if total > 0 else 1.0
