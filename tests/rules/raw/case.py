"""A finding with its report and raw events, and the figures that are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.rules.raw.events import Event, Raw, Span, between, common, length, union, without


@dataclass(frozen=True)
class Figure:
    """A figure of a finding, and the same of raw events."""

    name: str
    said: float
    raw: float
    tolerance: float = 1e-6
    """Share of the figure by which the two may differ."""
    is_limit: bool = False
    """Whether raw events only say how much it is at most."""

    @property
    def holds(self) -> bool:
        """Whether they agree; sums of rounded times may differ by 2 ns."""
        if self.is_limit and 0 < self.said <= self.raw:
            return True
        return abs(self.said - self.raw) <= self.tolerance * abs(self.raw) + 2


@dataclass(frozen=True)
class Case:
    """A finding, the report that it is in, and the raw events."""

    raw: Raw
    report: Mapping[str, Any]
    finding: Mapping[str, Any]

    @property
    def params(self) -> Mapping[str, Any]:
        """The figures of the sentence."""
        found: Mapping[str, Any] = self.finding["summary"]["params"]
        return found

    @cached_property
    def typical(self) -> list[Span]:
        """The typical steps."""
        steps = self.report["analyses"]["recording"]["steps"]
        return [(s["start_ns"], s["start_ns"] + s["duration_ns"]) for s in steps if s["is_typical"]]

    @cached_property
    def times(self) -> list[Span]:
        """When typical steps are."""
        return union(self.typical)

    @cached_property
    def step_ns(self) -> float:
        """A typical step."""
        return length(self.typical) / len(self.typical)

    @cached_property
    def device(self) -> Any:
        """The device with most work in typical steps."""
        busy = self.raw.busy
        return max(busy, key=lambda device: length(common(busy[device], self.times)))

    @cached_property
    def work(self) -> list[Event]:
        """What runs on the device in typical steps."""
        first, last = self.times[0][0], self.times[-1][1]
        return [w for w in self.raw.device if w.place[0] == self.device and w.end > first and w.start < last]

    @cached_property
    def kernels(self) -> list[Event]:
        """The kernels among that work."""
        return [work for work in self.work if work.category == "kernel"]

    @cached_property
    def idle(self) -> list[Span]:
        """When the device does nothing in typical steps."""
        return without(self.times, self.raw.busy[self.device])

    def per_step(self, spans: Iterable[Span]) -> float:
        """How long spans are in a typical step."""
        return length(common(union(spans), self.times)) / len(self.typical)

    def events_per_step(self, events: Iterable[Event]) -> float:
        """How long events take in a typical step, those at the same time counted twice."""
        return sum(length(common([event.span], self.times)) for event in events) / len(self.typical)

    def spans(self, *kinds: str) -> list[Span]:
        """The times that the finding lists."""
        places = [place for place in self.finding["where"] if place["kind"] in kinds]
        return union((start, start + ns) for place in places for start, ns in place["spans"])

    def stray(self, spans: Iterable[Span], *kinds: str, tolerance: float = 0.01) -> Figure:
        """Times that the finding lists, and that raw events have, too."""
        listed = self.spans(*kinds)
        return Figure("listed times", length(listed), length(common(listed, union(spans))), tolerance)

    def marks(self, pattern: str) -> list[Event]:
        """Calls of this name that begin in typical steps."""
        return [call for start, end in self.times for call in between(named(self.raw.host, pattern), start, end)]


def named(events: Iterable[Event], pattern: str) -> list[Event]:
    """Events whose name has a pattern."""
    wanted = re.compile(pattern)
    return [event for event in events if wanted.search(event.name)]


def dims(operator: Event) -> list[list[int]]:
    """The shapes of an operator's tensors."""
    some = operator.args.get("Input Dims") or operator.args.get("Input dims") or []
    return [shape for shape in some if shape and all(isinstance(size, int) for size in shape)]


def types(operator: Event) -> list[str]:
    """The types of an operator's tensors."""
    return [one for one in operator.args.get("Input type") or [] if isinstance(one, str)]
