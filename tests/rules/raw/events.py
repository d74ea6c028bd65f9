"""The events of a trace, read with the standard library alone: findings are held against them.

An oracle: it shares no code with the package. Times are whole ns since the first event, as in the JSON of a report.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

Span = tuple[int, int]
"""Start and end."""
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
CALLS = ("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime")
ON_HOST = (*CALLS, "cpu_op", "operator", "user_annotation", "python_function", "cpu_instant_event", "")
_LAUNCHES = re.compile(r"Launch|Memcpy|Memset|memcpy|memset")


@dataclass(eq=False)
class Event:
    """A slice of a trace: work of a device, or a call of a thread."""

    name: str
    category: str
    start: int
    end: int
    place: tuple[Any, Any]
    """Device and stream, or process and thread."""
    args: dict[str, Any]
    parent: Event | None = field(default=None, repr=False)
    """The call around it; of work of a device the call that launched it."""

    @property
    def ns(self) -> int:
        """How long it takes."""
        return self.end - self.start

    @property
    def span(self) -> Span:
        """When it is."""
        return self.start, self.end

    def above(self) -> Iterator[Event]:
        """The calls around it, the innermost first."""
        call = self.parent
        while call is not None:
            yield call
            call = call.parent

    @property
    def operators(self) -> list[Event]:
        """The operators around it, the innermost first."""
        return [call for call in self.above() if call.category in ("cpu_op", "operator")]


@dataclass(frozen=True)
class Raw:
    """All slices of a trace."""

    device: tuple[Event, ...]
    """What runs on devices, in the order of time."""
    host: tuple[Event, ...]
    """What threads do, in the order of time; calls follow the call around them."""
    properties: tuple[dict[str, Any], ...]
    """What the header says of the devices."""

    @classmethod
    def of(cls, path: Path) -> Raw:
        """What a file contains; ValueError if it is no plain JSON."""
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            content = json.load(file, parse_float=Decimal, strict=False)
        listed = content if isinstance(content, list) else content["traceEvents"]
        timed = [event for event in listed if _is_slice(event)]
        origin = min(event["ts"] for event in timed)
        device, host = [], []
        for event in timed:
            found = _event(event, origin)
            if found.category in ON_DEVICE:
                device.append(found)
            elif found.category in ON_HOST:
                host.append(found)
        host.sort(key=lambda call: (call.start, -call.end))
        device.sort(key=lambda work: (work.start, work.end))
        _nest(host)
        _link(device, host)
        header = content.get("deviceProperties") if isinstance(content, dict) else None
        return cls(tuple(device), tuple(host), tuple(header or ()))

    @cached_property
    def busy(self) -> dict[Any, list[Span]]:
        """When each device works."""
        spans: dict[Any, list[Span]] = defaultdict(list)
        for work in self.device:
            spans[work.place[0]].append(work.span)
        return {device: union(some) for device, some in spans.items()}

    @cached_property
    def threads(self) -> dict[str, list[Event]]:
        """The calls of each thread, by the name that a report gives it."""
        found: dict[str, list[Event]] = defaultdict(list)
        for call in self.host:
            found[f"{call.place[0]}/{call.place[1]}"].append(call)
        return found

    @cached_property
    def launches(self) -> list[Event]:
        """The calls that have started something on a device, in the order of time."""
        some = {id(work.parent): work.parent for work in self.device if work.parent is not None}
        return sorted(some.values(), key=lambda call: call.start)


def _is_slice(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and event.get("ph") == "X"
        and event.get("cat") != "Trace"
        and all(isinstance(event.get(key, 0), int | Decimal) for key in ("ts", "dur"))
        and "ts" in event
    )


def _event(event: dict[str, Any], origin: Any) -> Event:
    args = event.get("args") or {}
    category = str(event.get("cat", "")).lower()
    start = int((event["ts"] - origin) * 1000)
    place = (event.get("pid"), event.get("tid"))
    if category in ON_DEVICE:
        place = (args.get("device", place[0]), args.get("stream", place[1]))
    return Event(str(event.get("name")), category, start, start + int(event.get("dur", 0) * 1000), place, args)


def _nest(host: list[Event]) -> None:
    """Sets the parents of calls: the last one of the thread that has not ended."""
    stacks: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for call in host:
        stack = stacks[call.place]
        while stack and stack[-1].end < call.end:
            stack.pop()
        call.parent = stack[-1] if stack else None
        stack.append(call)


def _link(device: list[Event], host: list[Event]) -> None:
    """Sets the calls that launched what runs on devices; old traces have the operator's id alone."""
    calls = {call.args.get("correlation"): call for call in host if call.category in CALLS}
    operators = {call.args.get("External id"): call for call in host if call.category in ("cpu_op", "operator")}
    for work in device:
        number = work.args.get("correlation")
        found = calls.get(number) if number is not None else None
        outside = work.args.get("External id")
        work.parent = found or (operators.get(outside) if outside is not None else None)


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans without overlap, in the order of time."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        elif end > start:
            out.append((start, end))
    return out


def length(spans: Iterable[Span]) -> int:
    """How long spans are together."""
    return sum(end - start for start, end in spans)


def common(one: list[Span], other: list[Span]) -> list[Span]:
    """When both unions are."""
    out, ends = [], [end for _, end in other]
    for start, end in one:
        at = bisect_right(ends, start)
        while at < len(other) and other[at][0] < end:
            out.append((max(start, other[at][0]), min(end, other[at][1])))
            at += 1
    return out


def without(one: list[Span], other: list[Span]) -> list[Span]:
    """When the one union is and the other is not."""
    out, ends = [], [end for _, end in other]
    for start, end in one:
        at, free = bisect_right(ends, start), start
        while at < len(other) and other[at][0] < end:
            if other[at][0] > free:
                out.append((free, other[at][0]))
            free = max(free, other[at][1])
            at += 1
        if free < end:
            out.append((free, end))
    return out


def between(events: list[Event], start: int, end: int) -> list[Event]:
    """Those of events in the order of time that begin in a span."""
    starts = [event.start for event in events]
    return events[bisect_left(starts, start) : bisect_left(starts, end)]
