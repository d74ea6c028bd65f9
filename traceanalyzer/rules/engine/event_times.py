"""The work that a finding is about: sets of events with their times, of which its evidence, sentence and change speak.

work = EventTimes.of(Processor.of(facts), ((row.events, row.total_ns) for row in rows))
if work.share > limits["gpu_share"]:
yield Draft((evidence,), work.shorter((0.5, 1.0), basis), work.figures())
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from math import fsum

import msgspec

from traceanalyzer.report.message import Message
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, Interval, summed
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, OfEvents
from traceanalyzer.structure.events import EventSet

_FASTER = 0.2
"""Part of other operators' time that may go away with large tensors, which fill caches (own choice)."""


class EventTimes(msgspec.Struct, frozen=True):
    """Sets of events on the processor that computes the operators of a run, with their times."""

    processor: Processor
    ns: Mapping[EventSet, float]
    """Time of each set in all typical steps, in ns."""

    @classmethod
    def of(cls, processor: Processor, times: Iterable[tuple[EventSet, float]]) -> EventTimes:
        """Sets with their times in the typical steps in ns, where several may be the same."""
        return cls(processor, summed(times))

    @classmethod
    def on_device(cls, facts: Facts, times: Iterable[tuple[EventSet, float]]) -> EventTimes:
        """The same of kernels, copies and operators with kernels, whatever computes the operators."""
        return cls(Processor(facts, is_cpu=False), summed(times))

    @classmethod
    def on_cpu(cls, facts: Facts, times: Iterable[tuple[EventSet, float]]) -> EventTimes:
        """The same of host time in a program that computes on a CPU."""
        return cls(Processor(facts, is_cpu=True), summed(times))

    @property
    def total_ns(self) -> float:
        """Time of all sets in the typical steps in ns."""
        return fsum(self.ns.values())

    @property
    def time(self) -> float:
        """Time per step in ns."""
        return self.processor.per_step(self.total_ns)

    @property
    def share(self) -> float:
        """Share of the GPU's time; of the step on a CPU."""
        return self.processor.share(self.total_ns)

    @property
    def longest_first(self) -> EventTimes:
        """The same sets, those with the most time first."""
        ordered = sorted(self.ns.items(), key=lambda item: (-item[1], item[0].name, item[0].shapes or ""))
        return EventTimes(self.processor, dict(ordered))

    def part(self, share: float) -> EventTimes:
        """The same sets with a part of their times."""
        return EventTimes(self.processor, {events: share * ns for events, ns in self.ns.items()})

    def claims(self, part: float = 1.0) -> dict[EventSet, float]:
        """Time per step in ns of each set that takes some, or a part of it."""
        return {events: self.processor.per_step(part * ns) for events, ns in self.ns.items() if ns}

    def figures(self) -> dict[str, float | OfEvents]:
        """The quantities `time` and `share` of a sentence."""
        share = OfEvents(self.time, is_share=True) if self.processor.is_cpu else self.share
        return {"time": OfEvents(self.time), "share": share}

    @property
    def places(self) -> tuple[CodePlace, ...]:
        """The sets as places of a finding, each with its time: of a step, or of a table as printed."""
        facts = self.processor.facts
        shown = self.processor.per_step if self.processor.is_cpu else facts.at_place
        return tuple(
            CodePlace(facts.place_kind(events.of.value), events.name, events.shapes or None, shown(ns), "ns")
            for events, ns in self.ns.items()
        )

    def shorter(
        self, parts: Interval, basis: Message, *, at: EventSet | None = None, host: EventSet | None = None
    ) -> DeviceWork | HostTime:
        """The change that saves a part of the work, at least and at most.

        Args:
            parts: The parts, from 0 to 1 or a little more, where other work goes with it.
            basis: How they were estimated.
            at: Where the change is, if that is not at the sets themselves.
            host: Host time that goes with work of a device, as in `DeviceWork`.
        """
        least, most = (min(part, self._most) for part in parts)
        interval = least * self.time, most * self.time
        return self.processor.less_work(interval, basis, self.claims(most), at, host)

    @property
    def _most(self) -> float:
        """The most that can go away, as a multiple of the time: on a CPU other operators mostly keep theirs."""
        if not self.processor.is_cpu or not self.time:
            return math.inf
        others = (1 - _FASTER) * self.processor.per_step(self.processor.total_ns - self.total_ns)
        return max(1.0, (self.processor.facts.step_ns - others) / self.time)

    def removed(
        self, total_ns: Interval, basis: Message, *, at: EventSet | None = None, host: EventSet | None = None
    ) -> DeviceWork | HostTime:
        """The change that removes time of these sets; of all of them, as the finding is about those without any, too.

        Args:
            total_ns: What it removes at least and at most, of all sets in all typical steps, in ns.
            basis: How both were estimated.
            at: As in `shorter`.
            host: As in `shorter`.
        """
        least, most = total_ns
        interval = self.processor.per_step(least), self.processor.per_step(most)
        claims = {events: self.processor.per_step(ns) for events, ns in self.ns.items()}
        return self.processor.less_work(interval, basis, claims, at, host)
