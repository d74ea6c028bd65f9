"""A small simulator: a host thread that runs operators, and streams that run what it launches.

Containment, launch order, waiting and idle gaps result from the simulation, so that a situation only describes what the
program does and how long its parts take.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from .device import KernelDetails
from .trace import TraceBuilder
from .transfers import Copy
from .values import Event, Time, micros, ns


class Pace:
    """Makes durations vary by a few percent, the same way every time; seed None leaves them exact."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = None if seed is None else random.Random(seed)

    def ns(self, time: Time) -> int:
        """A duration in nanoseconds, varied."""
        exact = ns(time)
        if self._random is None:
            return exact
        return exact * (970 + int(self._random.random() * 80)) // 1000


@dataclass(frozen=True)
class Work:
    """A kernel to be launched."""

    name: str
    dur: Time
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared: int = 0
    occupancy: int | None = 50
    args: Mapping[str, object] = field(default_factory=dict)

    def details(self, stream: Stream) -> KernelDetails:
        """Arguments of the kernel event on a stream."""
        place: KernelDetails = {"stream": stream.number, "device": stream.device}
        shape: KernelDetails = {"grid": self.grid, "block": self.block, "registers": self.registers}
        rest: KernelDetails = {"shared": self.shared, "occupancy": self.occupancy, "args": self.args}
        return {**place, **shape, **rest}


class Stream:
    """Runs one thing after the other; remembers when it will be free and which ranges it worked for."""

    def __init__(self, number: int = 7, device: int = 0, pace: Pace | None = None) -> None:
        self.number = number
        self.device = device
        self.pace = pace or Pace()
        self.free_ns = 0
        self.ranges: dict[int, tuple[str, int, int]] = {}

    def run(self, dur: Time, not_before: int, ranges: list[tuple[int, str]]) -> tuple[Decimal, Decimal]:
        """Occupy the stream; returns start and duration in microseconds."""
        start = max(self.free_ns + 900, not_before)
        length = self.pace.ns(dur)
        self.free_ns = start + length
        for ident, name in ranges:
            first = self.ranges[ident][1] if ident in self.ranges else start
            self.ranges[ident] = (name, first, self.free_ns)
        return micros(start), micros(length)


class Host:
    """A thread of the program. `now` advances with everything that it does."""

    def __init__(self, trace: TraceBuilder, *, at: Time = 0, tid: int | None = None, pace: Pace | None = None) -> None:
        self.trace = trace
        self.tid = trace.tid if tid is None else tid
        self.pace = pace or Pace()
        self.now = ns(at)
        self.ops: list[int] = []
        self.ranges: list[tuple[int, str]] = []
        self.frames: list[int] = []
        self.latency: Time = 4

    def work(self, dur: Time) -> None:
        """Time passes in the code around the traced calls."""
        self.now += self.pace.ns(dur)

    @contextmanager
    def op(self, name: str, before: Time = 2, after: Time = 1, **details: Any) -> Iterator[int]:
        """An operator around whatever happens inside; `details` as for `TraceBuilder.op`."""
        start = self.now
        ident = self.trace.op(name, micros(start), 0, tid=self.tid, **details)
        event = self.trace.events[-1]
        self.ops.append(ident)
        self.work(before)
        yield ident
        self.work(after)
        self.ops.pop()
        self.trace.stretch(event, start, self.now)

    def leaf(self, name: str, dur: Time = 3, **details: Any) -> int:
        """An operator without anything inside."""
        with self.op(name, dur, 0, **details) as ident:
            pass
        return ident

    @contextmanager
    def annotation(self, name: str, before: Time = 2, after: Time = 1) -> Iterator[int]:
        """A user range around whatever happens inside."""
        start = self.now
        ident = self.trace.annotation(name, micros(start), 0, tid=self.tid)
        event = self.trace.events[-1]
        self.ranges.append((ident, name))
        self.work(before)
        yield ident
        self.work(after)
        self.ranges.pop()
        self.trace.stretch(event, start, self.now)

    def range(self, name: str, dur: Time) -> None:
        """An annotation around nothing that is traced."""
        with self.annotation(name, dur, 0):
            pass

    @contextmanager
    def frame(self, name: str, module: int | None = None, before: Time = 3, after: Time = 1) -> Iterator[int]:
        """A Python frame, or the call of an `nn.Module` where `module` is its number."""
        start, parent = self.now, self.frames[-1] if self.frames else None
        ident = self.trace.python_function(name, micros(start), 0, parent=parent, module=module, tid=self.tid)
        event = self.trace.events[-1]
        self.frames.append(ident)
        self.work(before)
        yield ident
        self.work(after)
        self.frames.pop()
        self.trace.stretch(event, start, self.now)

    def launch(self, work: Work, stream: Stream, *, call: str | None = None, call_dur: Time = 5) -> int:
        """Launch a kernel and go on; returns the correlation."""
        at, ends = self._call(call_dur)
        start, dur = stream.run(work.dur, ends + ns(self.latency), self.ranges)
        return self.trace.launch_kernel(
            work.name,
            start,
            dur,
            at=at,
            call=call,
            call_dur=micros(ends - ns(at)),
            tid=self.tid,
            external_id=self.owner,
            **work.details(stream),
        )

    def graph(self, works: Sequence[Work], stream: Stream, *, call_dur: Time = 60) -> int:
        """Launch a captured graph of kernels; returns the correlation that they share."""
        at, ends = self._call(call_dur)
        runs = [(work, *stream.run(work.dur, ends + ns(self.latency), self.ranges)) for work in works]
        return self.trace.graph_launch(
            at,
            micros(ends - ns(at)),
            [(work.name, start, dur, work.details(stream)) for work, start, dur in runs],
            external_id=self.owner,
            tid=self.tid,
        )

    def copy(
        self,
        kind: Copy,
        nbytes: int,
        stream: Stream,
        *,
        dur: Time,
        pinned: bool = False,
        wait: bool = False,
        call_dur: Time = 7,
    ) -> int:
        """Copy, and wait for it if asked; returns the correlation."""
        at, ends = self._call(call_dur)
        start, length = stream.run(dur, ends + ns(self.latency), self.ranges)
        ident = self.trace.memcpy(
            kind,
            nbytes,
            start,
            length,
            pinned=pinned,
            at=at,
            call_dur=micros(ends - ns(at)),
            stream=stream.number,
            device=stream.device,
            external_id=self.owner,
            tid=self.tid,
        )
        if wait:
            self.wait(stream)
        return ident

    def fill(self, nbytes: int, stream: Stream, *, dur: Time = 2, call_dur: Time = 4) -> int:
        """Fill memory; returns the correlation."""
        at, ends = self._call(call_dur)
        start, length = stream.run(dur, ends + ns(self.latency), self.ranges)
        return self.trace.memset(
            nbytes,
            start,
            length,
            at=at,
            call_dur=micros(ends - ns(at)),
            stream=stream.number,
            device=stream.device,
            external_id=self.owner,
            tid=self.tid,
        )

    def call(self, name: str, dur: Time = 1) -> int:
        """A runtime call that starts nothing on the device."""
        at, ends = self._call(dur)
        return self.trace.launch(name, at, micros(ends - ns(at)), external_id=self.owner, tid=self.tid)

    def wait(self, *streams: Stream, call: str | None = None) -> int:
        """Block until streams are free."""
        start = self.now
        self.now = max(start + 1500, *(stream.free_ns + 2500 for stream in streams))
        name = call or self.trace.dialect.calls.wait_stream
        dur = micros(self.now - start)
        return self.trace.launch(name, micros(start), dur, external_id=self.owner, tid=self.tid)

    @property
    def owner(self) -> int | None:
        """External id of the innermost open operator."""
        return self.ops[-1] if self.ops else None

    def _call(self, dur: Time) -> tuple[Decimal, int]:
        start = self.now
        self.work(dur)
        return micros(start), self.now


def finish(trace: TraceBuilder, *streams: Stream, annotations: bool = True) -> TraceBuilder:
    """Project user ranges on the streams, and put the events in the order in which kineto writes them."""
    for stream in streams if annotations else ():
        for ident, (name, first, last) in sorted(stream.ranges.items(), key=lambda item: item[1][1]):
            start, dur = micros(first - 1), micros(last - first + 2)
            trace.gpu_annotation(name, start, dur, external_id=ident, stream=stream.number, device=stream.device)
    host = {trace.dialect.op, trace.dialect.annotation, "fwdbwd"}

    def rank(event: Event) -> int:
        if event.get("cat") in host:
            return 0
        return {"cpu_instant_event": 1, trace.dialect.python: 2}.get(str(event.get("cat")), 3)

    trace.events.sort(key=rank)
    return trace
