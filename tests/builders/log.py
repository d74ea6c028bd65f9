"""The growing list of events, and the numbers that must not repeat in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .dialects import Dialect
from .hardware import Device
from .values import Event, Time, micros, ns

AUTO = -1
"""Placeholder for an external id: that of the innermost operator around a launch."""


class EventLog:
    """Appends events in the dialect's spelling; times are microseconds after `origin`."""

    def __init__(self, dialect: Dialect, devices: tuple[Device, ...], *, pid: int, tid: int, origin: Time) -> None:
        self.dialect = dialect
        self.devices = devices
        self.pid = pid
        self.tid = tid
        self.origin_ns = ns(origin)
        self.events: list[Event] = []
        self.threads: dict[tuple[int, int], None] = {}
        self.streams: dict[tuple[int, int], None] = {}
        self.first_ns: int | None = None
        self.last_ns: int = 0
        self._hosts: list[tuple[tuple[int, int], int, int, int]] = []
        self._counters = {"correlation": 1000, "external": 0, "python": 0, "event": 0, "flow": 0}

    def next(self, counter: Literal["correlation", "external", "python", "event", "flow"]) -> int:
        """The next unused number of a kind."""
        self._counters[counter] += 1
        return self._counters[counter]

    def stamp(self, time_ns: int) -> object:
        """`ts` of a time in nanoseconds after the origin."""
        return self.duration(self.origin_ns + time_ns)

    def add(
        self,
        category: str,
        name: str,
        span: tuple[Time, Time],
        where: tuple[object, object],
        args: Mapping[str, object] | None,
    ) -> Event:
        """Append a complete event; `span` is start and duration, `where` is pid and tid."""
        start, dur = ns(span[0]), ns(span[1])
        self._extend(start, max(dur, 0))
        event: Event = {"ph": "X", "cat": category, "name": name, "pid": where[0], "tid": where[1]}
        event |= {"ts": self.stamp(start), "dur": self.duration(dur)}
        if args is not None:
            event["args"] = dict(args)
        self.events.append(event)
        return event

    def raw(self, event: Event) -> Event:
        """Append an event exactly as given, with its own `ts`."""
        self.events.append(event)
        return event

    def stretch(self, event: Event, start_ns: int, end_ns: int) -> None:
        """Give an event that is still open its end."""
        event["dur"] = self.duration(end_ns - start_ns)
        self._extend(start_ns, end_ns - start_ns)

    def flow(
        self,
        kind: tuple[str, str],
        ident: int,
        start: tuple[Time, object, object],
        finish: tuple[Time, object, object],
    ) -> None:
        """Append both ends of an arrow; an end is time, pid and tid."""
        self.flow_end("s", kind, ident, start)
        self.flow_end("f", kind, ident, finish)

    def flow_end(
        self, phase: Literal["s", "f"], kind: tuple[str, str], ident: int, end: tuple[Time, object, object]
    ) -> None:
        """Append one end of an arrow."""
        time, pid, tid = end
        event: Event = {"ph": phase, "id": ident, "pid": pid, "tid": tid, "ts": self.stamp(ns(time))}
        event |= {"cat": kind[0], "name": kind[1]}
        if phase == "f":
            event["bp"] = "e"
        self.events.append(event)

    def thread(self, tid: int | None, pid: int | None = None) -> tuple[int, object]:
        """Process and thread of a host event, as the dialect writes them, and remembered for the metadata."""
        where = self._where(tid, pid)
        self.threads[where] = None
        return where[0], str(where[1]) if self.dialect.string_tids else where[1]

    def stream(self, device: int, stream: int) -> tuple[int, object]:
        """Process and thread of a device event, as the dialect writes them."""
        self.streams[device, stream] = None
        return device, f"stream {stream}" if self.dialect.string_tids else stream

    def remember(self, external_id: int, span: tuple[Time, Time], tid: int | None, pid: int | None) -> None:
        """Let launches inside this host range find its external id."""
        start, dur = ns(span[0]), ns(span[1])
        self._hosts.append((self._where(tid, pid), start, start + dur, external_id))

    def around(self, time: Time, tid: int | None, pid: int | None) -> int | None:
        """External id of the innermost remembered host range that contains a time."""
        at, where = ns(time), self._where(tid, pid)
        inside = [
            (start, -end, external_id)
            for host, start, end, external_id in self._hosts
            if host == where and start <= at < end
        ]
        return max(inside)[2] if inside else None

    def _where(self, tid: int | None, pid: int | None) -> tuple[int, int]:
        return (self.pid if pid is None else pid), (self.tid if tid is None else tid)

    def duration(self, nanoseconds: int) -> object:
        """A length in nanoseconds as the dialect writes it."""
        return micros(nanoseconds) if self.dialect.exact else nanoseconds // 1000

    def _extend(self, start: int, dur: int) -> None:
        self.first_ns = start if self.first_ns is None else min(self.first_ns, start)
        self.last_ns = max(self.last_ns, start + dur)
