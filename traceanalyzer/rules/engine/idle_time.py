"""Idle time of the device that bounds the step, for several rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from math import fsum

import msgspec

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepCause, StepIdle
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import avoidable_waits, program
from traceanalyzer.rules.engine.change import Interval
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.facts.sources import is_partial
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.idle_times import IdleTime
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import beside_another_ns, mean

_ONLY_WARM_UP = Text(
    "idle-only-warm-up",
    "code is loaded or compiled in every recorded step while the GPU waits: record later steps (wait and warmup of "
    "the schedule)",
)
_FEW = Text("idle-few-events", "too few kernels, copies and fills ran to judge idle time: {events:count}")
_UNEXPLAINED = Text(
    "idle-unexplained",
    "the trace does not explain much of the GPU's idle time (launched work waits in its queue, or events are "
    "missing), so gaps do not show that the CPU is slow",
)
_BEGAN_LATE = Text(
    "rule-earlier-work",
    "the recording began in the middle of the device's work, and most idle time lies before its first recorded event",
)
_COUNTED = Text(
    "idle-counted",
    "{subject}; {most:share} of it counts, because recording makes it longer",
    note="subject is time of gaps, as a share of the step",
)
_MOSTLY = 0.5
_OFTEN = 0.05
"""Own choice: one wait for twenty launches; programs that read nothing but a loss have one for hundreds."""
_MANY = 20
"""Own choice: fewer waits per step have separate findings and are removed one by one."""
_TURNS = 0.5
"""Share of the time in which launched work waits that another device must work for, to be the reason (own choice)."""
STACKS = 5
"""Most by which recording stacks slows the host down: two to five times, by PyTorch's issues about with_stack."""


class GapParts(msgspec.Struct, frozen=True):
    """The part of gaps of a device that remains without the profiler."""

    most: float
    """The greatest part, which counts."""
    saved: Interval
    """The part that goes away, at least and at most."""
    is_measured: bool
    """Whether a capture timed steps without the profiler."""

    def counted(self, subject: Message) -> Message:
        """What evidence says of idle time of which a part counts at most."""
        return subject if self.most == 1 else _COUNTED(subject=subject, most=self.most)

    def basis(self, of_all: Text, measured: Text, estimated: Text) -> Message:
        """How the part that goes away was estimated: all may go, or a part that was measured or estimated."""
        least, most = self.saved
        if most == 1:
            return of_all(least=least)
        return (measured if self.is_measured else estimated)(least=least, most=most)


class IdleDevice(msgspec.Struct, frozen=True):
    """What a device does in the steady steps, and how often the host waits for it there."""

    idle: StepIdle
    device: DeviceInSteps

    def per_step(self, total: float) -> float:
        """The mean over the steady steps of a sum over them."""
        return mean(total, self.idle.steps)

    @property
    def waits_often(self) -> bool:
        """Whether each wait of the host is soon followed by the next one, which no graph could hold."""
        return self.idle.waits > _OFTEN * self.device.events

    @property
    def waits_again_and_again(self) -> bool:
        """Whether there are besides so many waits in a step that one less would change little."""
        return self.waits_often and self.idle.waits >= _MANY * self.idle.steps

    def asks_often(self, facts: Facts) -> bool:
        """Whether most likely these waits are for values and sizes, on which the program depends."""
        return self.waits_often and avoidable_waits.asks_often(facts, self.per_step(self.device.events))

    def parts_without_profiler(self, facts: Facts, with_stacks: Interval) -> GapParts:
        """The part of the gaps that remains without the profiler; as given where recording stacks slowed the host."""
        measured = program.gaps_without_profiler(facts, self.device)
        parts = measured or (with_stacks if facts.is_host_inflated else (0.5, 1.0))
        # a replay takes what recording cost off all of the host's time
        saved = (0.5, 1.0) if measured and facts.is_replayed else parts
        return GapParts(parts[1], saved, measured is not None)

    def claims(self, causes: Collection[str], time_ns: float) -> dict[EventSet, float]:
        """Claims on idle time with these causes that add up to a time per step, in proportion to what they have."""
        times = {row.cause: row.time_ns for row in self.device.causes if row.cause in causes}
        total = sum(times.values())
        return {EventSet.idle(cause): time_ns * ns / total for cause, ns in times.items() if ns}

    @property
    def causes(self) -> list[StepCause]:
        """Causes of idle time, those with most first."""
        return sorted((row for row in self.device.causes if row.time_ns), key=lambda row: -row.time_ns)

    def after_waits_ns(self, causes: Collection[str]) -> int:
        """Idle time in ns with these causes that would not be there if the host had never waited for the device."""
        return sum(row.after_waits_ns for row in self.device.causes if row.cause in causes)

    def only_in_first_step(self, *causes: str) -> float:
        """Idle time in ns for some causes that the first recorded step has beyond later ones; 0 if unknown."""
        rows = [row for row in self.device.causes if row.cause in causes]
        later = sum(row.later_ns for row in rows)
        first = fsum(row.time_ns for row in rows) - later
        return max(0.0, first - mean(later, self.idle.later_steps)) if self.idle.later_steps else 0.0


def of_turns(facts: Facts) -> float:
    """Idle time per step in ns in which launched work most likely waits for another device of the program; 0 if none.

    Such are the parts of a model on several GPUs of one process, each of which waits for what the one before computes.
    """
    pending = facts.idle_per_step("pending")
    beside = 0.0 if facts.model is None else min(pending, beside_another_ns(facts.model.context))
    return beside if beside >= _TURNS * pending else 0.0


def enough(facts: Facts, events: float) -> StepIdle:
    """The analysis of the steady steps, if enough ran in them and the host may be blamed for their idle time.

    Raises:
        Missing: There are no steady steps, only a few kernels ran, or much of the idle time has no explanation.
    """
    recording = facts.find("recording", Recording)
    removed = recording is not None and any(reason.kind == "removed-events" for reason in recording.evidence)
    typical = recording.typical if recording is not None else None
    if removed or (typical is not None and is_partial(typical)):
        raise Missing(_UNEXPLAINED())
    need_usual_idle_time(facts)
    idle = facts.need("step_idle", StepIdle)
    if not idle.steps:
        raise Missing(_ONLY_WARM_UP())
    ran = sum(device.events for device in idle.devices)
    if ran < events:
        raise Missing(_FEW(events=ran))
    return idle


def need_usual_idle_time(facts: Facts) -> None:
    """Refuse to judge idle time that may come from how the recording was made.

    Raises:
        Missing: The device most likely worked while it seems to be idle.
    """
    launches = facts.find("launches", LaunchFigures)
    busy = facts.resources.gpu_ns
    idle_ns = (facts.step_ns - (busy or 0.0)) * facts.steps
    if launches is not None and launches.earlier_work_ns and launches.earlier_work_ns >= _MOSTLY * idle_ns:
        raise Missing(_BEGAN_LATE())


def busiest(facts: Facts, idle: StepIdle) -> DeviceInSteps | None:
    """The figures of the device that works longest within the steps; None without a device."""
    number = facts.need_step_resources().device
    return next((device for device in idle.devices if device.device == number), None)


def of_busiest(facts: Facts, events: float) -> IdleDevice | None:
    """The busiest device in the steady steps, as `enough` has them; None without a device, or if no time counts.

    Raises:
        Missing: As of `enough`.
    """
    idle = enough(facts, events)
    device = busiest(facts, idle)
    return IdleDevice(idle, device) if device is not None and device.time_ns else None


def is_after_waits(facts: Facts, causes: Collection[str]) -> bool:
    """Whether most idle time with these causes would not be there if the host did not wait for the device so often."""
    idle = facts.find("step_idle", StepIdle)
    device = busiest(facts, idle) if idle and idle.steps else None
    found = IdleDevice(idle, device) if idle is not None and device is not None else None
    if found is None or not found.waits_again_and_again:
        return False
    return 2 * found.after_waits_ns(causes) > fsum(row.time_ns for row in found.device.causes if row.cause in causes)


def per_later_step(facts: Facts, cause: str) -> float | None:
    """Idle time of a steady step after the first recorded one that has this cause, in ns; None if unknown."""
    idle = facts.find("step_idle", StepIdle)
    device = busiest(facts, idle) if idle and idle.later_steps else None
    if idle is None or device is None:
        return None
    return mean(sum(row.later_ns for row in device.causes if row.cause == cause), idle.later_steps)


def claims(facts: Facts, times: Iterable[IdleTime]) -> dict[EventSet, float]:
    """What a change claims of idle time that it removes, per step, by cause.

    Of separate parts, time spent waiting for the loader is not counted again once the loader is fixed. A claim is
    never more than the typical step's idle time of that cause; the idle time of steps that are left out does not recur.
    """
    recording = facts.find("recording", Recording)
    is_known = recording is not None and recording.typical is not None
    sums: Counter[str] = Counter()
    for idle in times:
        sums[idle.cause] += idle.time_ns
    found: dict[EventSet, float] = {}
    for cause, time in sums.items():
        own = facts.per_step(time)
        typical = min(own, facts.idle_per_step(cause)) if is_known else own
        part = EventSet.idle(cause)
        found[part] = found.get(part, 0.0) + typical
    return found
