"""What it saves to do without some work of the host on a program that runs on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from traceanalyzer.analyzers.host.pauses import HostPauses, pauses_at
from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.waits.value_reads import ReadLine, value_runs_at
from traceanalyzer.knowledge.profiler_overhead import overheads
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine import idle_time
from traceanalyzer.rules.engine.change import HostTime, Interval
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import OfEvents
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import ITS_OWN, EventSet, Occurrences, event_set
from traceanalyzer.structure.idle_times import IdleTime
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean

_WHOLE_CALLS = 10
"""Calls per step from which on a mean is told without decimals (own choice)."""
_MORE = 0.2
"""Greatest share by which a saving may exceed the recorded time (own choice; see `most`)."""
_MOST_QUEUED = 0.9
"""Greatest share of a step for which waiting for a core is taken out (own choice: of less, nothing can be told)."""
LOCK_HELD_NS = 500_000
"""Least wait for Python's lock that shows that another thread holds it (own choice: a tenth of the switch interval)."""
_SWITCHING = 0.5
"""Greatest part of the time on a core that goes to losing and getting Python's lock (0.4 measured in the lab)."""
_FEWEST = 3
"""Steps of the program from which on something recurs."""

_HAS_DEVICE = Text("host-work-device", "a device works beside the CPU, which other rules are about")
_UNREAD = Text("host-work-unread", "a device left no events in the trace, so it is unknown when the CPU waits for it")
_NO_STEPS = Text(
    "host-work-no-steps",
    "fewer than three steps of the program are known, so nothing is seen to recur: record more, with prof.step() after "
    "each",
)


def need_cpu_steps(facts: Facts) -> None:
    """Refuse to judge recordings with a device, or without steps that recur.

    Raises:
        Missing: A step consists, or may consist, of more than the critical thread; or fewer than three steps count.
    """
    if facts.resources.gpu_ns is not None or facts.find("accelerators", Accelerators) is not None:
        raise Missing(_HAS_DEVICE())
    own = facts.step_resources
    if own is not None and own.unread_device is not None:
        raise Missing(_UNREAD())
    recording = facts.find("recording", Recording)
    if recording is None or recording.typical_step_ns is None or recording.typical is None:
        raise Missing(_NO_STEPS())
    if recording.typical.steps < _FEWEST:
        raise Missing(_NO_STEPS())


def without_recording(facts: Facts, time_ns: float, events: float) -> float:
    """A time as it counts beside the recorded step, at least, if recording an event cost as little as was measured.

    The time is without what recording the events in it cost, and so is the step, which makes it a larger part of that.

    Args:
        facts: The measured run.
        time_ns: Time in ns.
        events: Number of recorded operators in it.
    """
    has_shapes = facts.summary is not None and bool(facts.summary.options.record_shapes)
    runs = overheads()
    cost = min(run.operator.low_ns + (run.shapes.low_ns if has_shapes else 0.0) for run in runs) if runs else 0.0
    left = max(0.0, time_ns - events * cost)
    every = facts.per_step(sum(row.calls for row in facts.operators))
    step = max(left, facts.step_ns - every * cost)
    return min(time_ns, left * facts.step_ns / step) if step else 0.0


def figures(facts: Facts, time_ns: float) -> dict[str, Any]:
    """The quantities `time`, `step` and `share` of a sentence about host time per step."""
    return {"time": OfEvents(time_ns), "step": facts.step_ns, "share": OfEvents(time_ns, is_share=True)}


def figures_of_calls(facts: Facts, calls: float, time_ns: float) -> dict[str, Any]:
    """The quantities `calls`, `time` and `step` of a sentence about what the host does so often per step."""
    return {"calls": calls if calls < _WHOLE_CALLS else round(calls), "time": OfEvents(time_ns), "step": facts.step_ns}


def place(row: ReadLine, steps: int) -> CodePlace:
    """A line or an operator that reads values, as a place of a finding with its time per step in ns."""
    return CodePlace(
        "python" if row.is_line else "operator", row.name, None, mean(row.time_ns, steps), "ns", row.start_ns
    )


def most(facts: Facts, time_ns: float, silent_ns: float = 0.0) -> float:
    """A time as it counts beside the recorded step, at most.

    The profiler makes the rest of the step longer, so that without it the same time is a larger part of the step. Only
    where a capture timed steps without the profiler is it known how much longer. Of time with recorded operators a
    fifth is granted at most, because some of it is the profiler's; code in no operator takes as long without it.

    Args:
        facts: The measured run.
        time_ns: Time in ns with recorded operators.
        silent_ns: Time in ns beside it in which nothing is recorded.
    """
    overhead = max(0.0, (facts.capture.overhead_share if facts.capture else None) or 0.0)
    return min(time_ns * (1 + min(_MORE, overhead)) + silent_ns * (1 + overhead), facts.step_ns)


def on_core(facts: Facts) -> float:
    """Share of a recorded step in which its thread did not wait for a core that others had; 1 if unknown."""
    share = facts.capture.queued_share if facts.capture else None
    return 1.0 - min(share or 0.0, _MOST_QUEUED)


def garbage(facts: Facts) -> tuple[float, float]:
    """Time in ns of a recorded step in which all garbage was collected, and how often; 0 where no capture saw it."""
    seen = facts.capture.facts.garbage if facts.capture else None
    steps = facts.capture.facts.steps if facts.capture else 0
    return (0.0, 0.0) if seen is None else (mean(seen.ns, steps), mean(seen.collections, steps))


def lock_ns(facts: Facts, *, with_switching: bool = False) -> float:
    """Time of a recorded step in ns, at most, in which it waits for Python's lock, as steps without the profiler show.

    The thread that makes the steps is neither on a core nor waits for one, and other threads of Python run or are ready
    to. 0 if none is, or if the lock was free when it was asked for, or if that is unknown.

    Args:
        facts: The measured run.
        with_switching: Whether to add what losing the core with the lock, again and again, costs at most.
    """
    seen = facts.capture.facts if facts.capture else None
    if seen is None or (seen.lock_wait_ns or 0) < LOCK_HELD_NS:
        return 0.0
    phases = (seen.timing.control, seen.timing.profiled)
    times = next((each for each in phases if each is not None and each.others_ns is not None), None)
    if times is None or times.cpu_ns is None or times.queued_ns is None:
        return 0.0
    ready = times.mean_ns - times.queued_ns
    waits = min(ready - times.cpu_ns, times.others_ns or 0)
    if with_switching and waits > 0:
        waits += int(_SWITCHING * times.cpu_ns)
    return facts.step_ns * max(0, waits) / ready if ready > 0 else 0.0


def asleep_ns(facts: Facts) -> float | None:
    """Time of a recorded step in ns in which its thread waited for no core, loader or lock; None if unknown.

    Without a capture that counts it, what stacks show of pauses.
    """
    pauses = facts.find("host_pauses", HostPauses)
    if facts.capture is None and pauses is not None and pauses.asleep_ns is not None:
        return facts.per_step(pauses.asleep_ns)
    times = facts.capture.facts.timing.profiled if facts.capture else None
    if times is None or times.cpu_ns is None or times.queued_ns is None or not times.mean_ns:
        return None
    asleep = facts.step_ns * (1 - (times.cpu_ns + times.queued_ns) / times.mean_ns)
    return max(0.0, asleep - (facts.resources.loader_ns or 0.0) - lock_ns(facts))


def asleep_ready_ns(facts: Facts) -> float:
    """Time of a recorded step in ns in which its thread sleeps, as it counts in a step that waits for no core.

    By steps without the profiler, if their times on a core are known. Waits for the loader do not count.
    """
    timing = facts.capture.facts.timing if facts.capture else None
    phases = (timing.control, timing.profiled) if timing else ()
    times = next((each for each in phases if each is not None and each.cpu_ns is not None), None)
    if times is None or times.cpu_ns is None or times.queued_ns is None or times.queued_ns >= times.mean_ns:
        return 0.0
    ready = times.mean_ns - times.queued_ns
    asleep = max(0, ready - times.cpu_ns) / ready * facts.step_ns
    return max(0.0, asleep - (facts.resources.loader_ns or 0.0) / on_core(facts))


def without_runs(
    facts: Facts,
    saved: Interval,
    basis: Message,
    *,
    prints: bool,
    exposed: Iterable[IdleTime] = (),
    claims: Mapping[EventSet, float] = {},
) -> HostTime:
    """The change without runs that print, or that read values; beside a device, what they launch goes with them.

    Args:
        facts: The measured run.
        saved: Time that goes away per step in ns.
        basis: How it was estimated.
        prints: Whether it is about runs that print.
        exposed: Idle time of the device that the runs cause.
        claims: What they claim besides.
    """
    runs = value_runs_at(prints=prints)
    if facts.resources.gpu_ns is None:
        return HostTime(saved, basis, saved, at=runs)
    of_all = {**idle_time.claims(facts, exposed), **claims}
    return HostTime(saved, basis, saved, of_all, within=runs, device=ITS_OWN)


@event_set
def waits_and_prints(context: Context, *, prints: bool, waits: bool) -> Iterator[Occurrences]:
    """When the program prints, and when it pauses."""
    if prints:
        yield from value_runs_at(prints=True).found(context)
    if waits:
        yield from pauses_at().found(context)
