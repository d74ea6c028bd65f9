"""Random traces with everything that idle time is attributed to, and a slow, literal reading of the definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.builders import TraceBuilder

LENGTH = 120
"""Steps last this many microseconds; all times are whole ones."""
THREADS = (11, 12)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
RANGES = {
    LOADER: "dataloader",
    "nccl:all_reduce": "communication",
    "compile_fx_inner (dynamo_timed)": "compilation",
    "aten::add": "launch_bound",
    "my range": None,
}
CALLS = {
    "cudaMalloc": "allocation",
    "cudaFree": "allocation",
    "cuModuleLoadData": "compilation",
    "cudaStreamSynchronize": "synchronization",
    "cudaEventRecord": "launch_bound",
    "cudaLaunchKernel": "launch_bound",
}
OVERHEADS = {"Buffer Flush": "profiler_overhead", "Lazy Function Loading": "compilation"}
EXPLICIT = ("dataloader", "communication", "compilation", "allocation", "profiler_overhead")
ORDER = (*EXPLICIT, "synchronization", "launch_bound")


@dataclass(frozen=True)
class Call:
    """A call of the runtime; with a kernel if `delay` says when it starts after the call did."""

    name: str
    start: int
    dur: int
    thread: int
    delay: int | None = None
    kernel: int = 0

    def holds(self, time: int) -> bool:
        return self.start <= time < self.start + self.dur


@dataclass(frozen=True)
class Plan:
    """What happens, in microseconds."""

    calls: tuple[Call, ...]
    ranges: tuple[tuple[str, int, int, int], ...]
    """Name, start, duration and thread."""
    overheads: tuple[tuple[str, int, int], ...]
    unlinked: tuple[tuple[int, int], ...]
    """Start and duration of kernels without a launch."""

    def build(self) -> TraceBuilder:
        trace = TraceBuilder(tid=THREADS[0])
        trace.annotation("begin", 0, 0)
        trace.step(1, 10, LENGTH)
        for name, start, dur, thread in self.ranges:
            if name.startswith("aten::"):
                trace.op(name, start, dur, tid=thread)
            else:
                trace.annotation(name, start, dur, tid=thread)
        for call in self.calls:
            if call.delay is None:
                trace.launch(call.name, call.start, call.dur, tid=call.thread)
            else:
                start = call.start + call.delay
                trace.launch_kernel("k", start, call.kernel, at=call.start, call_dur=call.dur, tid=call.thread)
        for name, start, dur in self.overheads:
            trace.add("overhead", name, (start, dur), (-1, 0), {})
        for start, dur in self.unlinked:
            trace.kernel("u", start, dur)
        return trace


def causes(plan: Plan, window: tuple[int, int]) -> Counter[str]:
    """Microseconds by cause over a window."""
    kernels: list[tuple[int, int, Call | None]] = [
        (c.start + c.delay, c.kernel, c) for c in plan.calls if c.delay is not None and c.kernel
    ]
    kernels += [(start, dur, None) for start, dur in plan.unlinked if dur]
    launching = {call.thread for call in plan.calls if call.delay is not None}
    horizon = max([window[1], *(start + dur for start, dur, _ in kernels)])
    busy = {time for start, dur, _ in kernels for time in range(start, start + dur)}
    found: Counter[str] = Counter()
    for time in range(*window):
        if time in busy:
            continue
        begin = max((t + 1 for t in busy if t < time), default=0)
        end = min((t for t in busy if t > time), default=horizon)
        ended_by = [call for start, _, call in kernels if start == end][:1]
        found[_cause(plan, time, (begin, end), begin - 1 in busy, ended_by, launching)] += 1
    return found


def _cause(
    plan: Plan,
    time: int,
    gap: tuple[int, int],
    worked: bool,
    ended_by: list[Call | None],
    launching: set[int],
) -> str:
    by = ended_by[0] if ended_by else None
    if by is not None and by.start + by.dur <= gap[0]:
        return "device_gap" if gap[1] - gap[0] < 30 else "pending"
    if by is not None and by.start + by.dur <= time and gap[1] - by.start - by.dur >= 30:
        return "pending"
    doing = _doing(plan, time, {by.thread}) if by is not None else None
    doing = doing or _doing(plan, time, launching or set(THREADS))
    if doing in EXPLICIT:
        return str(doing)
    waits = [c for c in plan.calls if c.thread in launching and c.start < gap[0] <= c.start + c.dur and worked]
    waits = [c for c in waits if c.name in ("cudaStreamSynchronize", "cudaFree")]
    if ended_by == [None]:  # a kernel without a launch
        found = doing if doing == "synchronization" else "unknown"
    elif doing is not None:
        found = doing
    else:
        found = "launch_bound" if by is not None and time >= by.start else "host_code"
    if not waits or not ended_by or found == "host_code":  # without an open call the time is the program's own
        return found
    last = max(waits, key=lambda c: c.start + c.dur)
    return "allocation" if last.name == "cudaFree" else "synchronization"


def _doing(plan: Plan, time: int, threads: set[int]) -> str | None:
    open_now = {RANGES[n] for n, start, dur, thread in plan.ranges if thread in threads and start <= time < start + dur}
    open_now |= {CALLS[call.name] for call in plan.calls if call.thread in threads and call.holds(time)}
    open_now |= {OVERHEADS[name] for name, start, dur in plan.overheads if start <= time < start + dur}
    return next((cause for cause in ORDER if cause in open_now), None)


@st.composite
def _calls(draw: st.DrawFn) -> tuple[Call, ...]:
    """Calls of a thread follow each other; so do those that two threads wait in, lest two end at the same time."""
    found = []
    for thread in THREADS:
        time = draw(st.integers(0, 20)) * 2 + THREADS.index(thread)
        while time < LENGTH and draw(st.integers(0, 7)):
            name, dur = draw(st.sampled_from(sorted(CALLS))), 2 * draw(st.integers(1, 12))
            delay, kernel = None, 0
            if name == "cudaLaunchKernel":
                dur, delay, kernel = 4, draw(st.integers(0, 60)), draw(st.integers(0, 15))
            found.append(Call(name, time, dur, thread, delay, kernel))
            time += dur + 2 * draw(st.integers(0, 15))
    return tuple(found)


_time = st.integers(0, LENGTH)
_short = st.integers(0, 30)
plans = st.builds(
    Plan,
    calls=_calls(),
    ranges=st.lists(
        st.tuples(st.sampled_from(sorted(RANGES)), _time, _short, st.sampled_from(THREADS)), max_size=8
    ).map(tuple),
    overheads=st.lists(st.tuples(st.sampled_from(sorted(OVERHEADS)), _time, _short), max_size=2).map(tuple),
    unlinked=st.lists(st.tuples(_time, _short), min_size=1, max_size=3).map(tuple),
)
