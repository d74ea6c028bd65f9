"""Idle time of the device that bounds the step, for several rules."""

from __future__ import annotations

from collections.abc import Collection

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepIdle
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.facts.of_trace import is_partial
from traceanalyzer.structure.recording import Recording

_ONLY_WARM_UP = Text(
    "idle-only-warm-up",
    "code is loaded or compiled in every recorded step while the GPU waits: record later steps (wait and warmup of "
    "the schedule)",
)
_FEW = Text("idle-few-events", "only {events:count} kernels, copies and fills ran, too few to judge idle time")
_UNEXPLAINED = Text(
    "idle-unexplained",
    "the recording does not explain much of the GPU's idle time (launched work waits in its queue, or events are "
    "missing), so gaps do not show that the host is slow",
)
_BEGAN_LATE = Text(
    "rule-earlier-work",
    "the recording began in the middle of the device's work, and most idle time lies before its first recorded event",
)
_MOSTLY = 0.5
_OFTEN = 0.05
"""Own choice: one wait for twenty launches; programs that read nothing but a loss have one for hundreds."""
_MANY = 20
"""Own choice: fewer waits per step have separate findings and are removed one by one."""
STACKS = 5
"""Most by which recording stacks slows the host down: two to five times, by PyTorch's issues about with_stack."""


def steady(facts: Facts) -> StepIdle:
    """The analysis of the steady steps.

    Raises:
        Missing: There are no steady steps.
    """
    found = facts.need("step_idle", StepIdle)
    if not found.steps:
        raise Missing(_ONLY_WARM_UP())
    return found


def enough(facts: Facts, events: float) -> StepIdle:
    """The analysis of the steady steps, if enough ran in them and the host may be blamed for their idle time.

    Raises:
        Missing: There is none, only a few kernels ran, or much of the idle time has no explanation.
    """
    _need_explained(facts)
    need_usual_idle_time(facts)
    found = steady(facts)
    ran = sum(device.events for device in found.devices)
    if ran < events:
        raise Missing(_FEW(events=ran))
    return found


def need_usual_idle_time(facts: Facts) -> None:
    """Refuse to judge idle time that may come from how the recording was made.

    Raises:
        Missing: The device most likely worked while it seems to be idle.
    """
    found, busy = facts.find("launches", LaunchFigures), facts.resources.gpu_ns
    idle = (facts.step_ns - (busy or 0.0)) * facts.steps
    if found is not None and found.earlier_work_ns and found.earlier_work_ns >= _MOSTLY * idle:
        raise Missing(_BEGAN_LATE())


def _need_explained(facts: Facts) -> None:
    """Refuse to blame the host where events are missing."""
    recording = facts.find("recording", Recording)
    if recording is None:
        return
    removed = any(reason.kind == "removed-events" for reason in recording.evidence)
    if removed or (recording.typical is not None and is_partial(recording.typical)):
        raise Missing(_UNEXPLAINED())


def busiest(facts: Facts, found: StepIdle) -> DeviceInSteps | None:
    """The figures of the device that works longest within the steps; None without a device."""
    number = facts.need_step_resources().device
    return next((device for device in found.devices if device.device == number), None)


def waits_often(found: StepIdle, device: DeviceInSteps) -> bool:
    """Whether the host waits so often that each wait is soon followed by the next one, which no graph could hold."""
    return found.waits > _OFTEN * device.events


def waits_again_and_again(found: StepIdle, device: DeviceInSteps) -> bool:
    """Whether there are besides so many waits in a step that one less would change little."""
    return waits_often(found, device) and found.waits >= _MANY * found.steps


def is_after_waits(facts: Facts, causes: Collection[str]) -> bool:
    """Whether most idle time with these causes would not be there if the host did not wait for the device so often."""
    found = facts.find("step_idle", StepIdle)
    device = busiest(facts, found) if found and found.steps else None
    if found is None or device is None or not waits_again_and_again(found, device):
        return False
    rows = [row for row in device.causes if row.cause in causes]
    return 2 * sum(row.after_waits_ns for row in rows) > sum(row.time_ns for row in rows)


def per_later_step(facts: Facts, cause: str) -> float | None:
    """Idle time of a steady step after the first recorded one that has this cause, in ns; None if unknown."""
    found = facts.find("step_idle", StepIdle)
    device = busiest(facts, found) if found and found.later_steps else None
    if found is None or device is None:
        return None
    return sum(row.later_ns for row in device.causes if row.cause == cause) / found.later_steps


def only_in_first_step(found: StepIdle, device: DeviceInSteps, *causes: str) -> float:
    """Idle time in ns for some causes that the first recorded step has beyond what later steps have; 0 if unknown."""
    rows = [row for row in device.causes if row.cause in causes]
    later = sum(row.later_ns for row in rows)
    first = sum(row.time_ns for row in rows) - later
    return max(0.0, first - later / found.later_steps) if found.later_steps else 0.0
