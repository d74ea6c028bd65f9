"""Detects idle devices, whatever the cause: gpu-underutilized, and gpu-unused where a device has no work at all."""

from __future__ import annotations

from msgspec.structs import replace

from traceanalyzer.analyzers.idle.step_idle import StepIdle
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Message
from traceanalyzer.rules.engine import host_owners, idle_time
from traceanalyzer.rules.engine.budget import RESOURCES
from traceanalyzer.rules.engine.facts import if_known
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, EventSet, Facts, Limits, Missing, page
from traceanalyzer.structure.recording import Recording

_UNDERUTILIZED = page("gpu-underutilized")
_UNUSED = page("gpu-unused")
_CAUSES = {
    "dataloader": _UNDERUTILIZED.text("dataloader"),
    "communication": _UNDERUTILIZED.text("communication"),
    "compilation": _UNDERUTILIZED.text("compilation"),
    "allocation": _UNDERUTILIZED.text("allocation"),
    "profiler_overhead": _UNDERUTILIZED.text("profiler"),
    "cpu_operators": _UNDERUTILIZED.text("cpu-operators"),
    "synchronization": _UNDERUTILIZED.text("synchronization"),
    "launch_bound": _UNDERUTILIZED.text("launch-bound"),
    "host_code": _UNDERUTILIZED.text("host-code"),
    "unrecorded_work": _UNDERUTILIZED.text("unrecorded-work"),
    "pending": _UNDERUTILIZED.text("pending"),
    "device_gap": _UNDERUTILIZED.text("device-gap"),
    "unknown": _UNDERUTILIZED.text("unknown"),
}
_CURES = {
    "dataloader": _UNDERUTILIZED.text("advice-dataloader"),
    "communication": _UNDERUTILIZED.text("advice-communication"),
    "compilation": _UNDERUTILIZED.text("advice-compilation"),
    "allocation": _UNDERUTILIZED.text("advice-allocation"),
    "cpu_operators": _UNDERUTILIZED.text("advice-cpu-operators"),
    "synchronization": _UNDERUTILIZED.text("advice-synchronization"),
    "launch_bound": None,
    "host_code": _UNDERUTILIZED.text("advice-host-code"),
}
"""What to do about the causes that a program can change (None: the advice of the page); the headline alone tells of
others."""
_UNSEEN = 0.5
"""Share of the host time in rows that are not printed, from which on waiting cannot be distinguished from work
(own choice)."""
_ONCE = ("allocation", "compilation")
"""Causes that the first steps of a program have and later ones do not."""
_FEW_PASSES, _WARM = 5, 0.25
"""Most passes of which the first ones may be all but the last, and the part of the mean length below which the last one
shows that (own choice: scripted and compiled models need two or three)."""
_HIGH = 0.9
_LOW = 0.1
"""Own choice: if parts of the recording are busy for less than the one share and others for more than the other, that
is not noise."""


def _underutilized_in_trace(facts: Facts, limits: Limits) -> Drafts:
    idle = idle_time.enough(facts, limits["events"])
    if facts.tells_little or facts.is_startup or host_owners.waits_for_requests(facts):
        return  # the headline says so
    if _gets_warm(facts):
        raise Missing(_UNDERUTILIZED.text("gets-warm")())
    if _waits_for_nothing(facts, idle):
        raise Missing(_UNDERUTILIZED.text("elsewhere")())
    for device in idle.devices:
        if device.time_ns:
            yield from _underutilized(facts, idle_time.IdleDevice(idle, device), limits)


def _gets_warm(facts: Facts) -> bool:
    """Whether few passes that nobody marked end with one far shorter than the mean: the others were the first ones.

    So are the first calls of a compiled or scripted model, each of which compiles anew.
    """
    recording = facts.find("recording", Recording)
    if recording is None or recording.steps_from == "ProfilerStep":
        return False
    lengths = [step.duration_ns for step in recording.steps]
    return 1 < len(lengths) <= _FEW_PASSES and min(lengths) == lengths[-1] < _WARM * facts.step_ns


def _waits_for_nothing(facts: Facts, idle: StepIdle) -> bool:
    """Whether the host mostly waits for an idle device; with several devices, it may wait for another one."""
    waits = facts.find("synchronizations", Synchronizations)
    if waits is None or len(idle.devices) != 1:
        return False
    return 2 * (waits.waiting_idle_ns or 0) > idle.devices[0].time_ns - idle.devices[0].busy_ns


def _underutilized(facts: Facts, found: idle_time.IdleDevice, limits: Limits) -> Drafts:
    device, busy = found.device, found.device.busy_ns / found.device.time_ns
    recurring = device.time_ns - found.only_in_first_step(*_ONCE)
    decisive = max(busy, device.busy_ns / max(1.0, recurring))
    if decisive >= limits["busy_share"] or not _may_change(facts, found):
        return
    subject = _UNDERUTILIZED.text("subject")(device=device.device)
    evidence = [_UNDERUTILIZED.evidence(limits, "busy_share", decisive, _places_of(facts, found), subject=subject)]
    owners = host_owners.places(facts, 5)
    if owners and device is idle_time.busiest(facts, found.idle):
        subject = _UNDERUTILIZED.text("subject-parts")(device=device.device)
        evidence.append(_UNDERUTILIZED.evidence(limits, "busy_share", decisive, owners, subject=subject))
    largest = found.causes[0]
    params = {
        "device": device.device,
        "busy": busy,
        "cause": _name(facts, largest.cause),
        "cause_share": largest.time_ns / device.time_ns,
    }
    draft = Draft(
        tuple(evidence),
        params=params,
        part=EventSet.idle(largest.cause),
        severity="critical" if decisive < limits["critical_share"] else "high",
        confidence=None if found.idle.steps_from == "ProfilerStep" else "C",
        summary=_UNDERUTILIZED.text("summary-fluctuating") if _fluctuates(found) else None,
    )
    yield _cured(facts, draft, largest.cause)


def _may_change(facts: Facts, found: idle_time.IdleDevice) -> bool:
    """Whether the program can change the largest part of the idle time, and no finding says how to learn more of it."""
    is_told = facts.is_gpu_alone and found.causes[0].cause == "host_code" and found.device.typical_other_gap_ns
    return found.causes[0].cause in _CURES and not is_told


def _cured(facts: Facts, draft: Draft, cause: str) -> Draft:
    """The draft with what to do about the largest part of the idle time, and for which part of the program it is."""
    if cause != "host_code":
        return replace(draft, advice=_CURES[cause])
    owner = host_owners.largest(facts)
    if owner is None:
        return replace(draft, advice=_UNDERUTILIZED.text("advice-unrecorded"))
    return replace(draft, advice=_CURES[cause], params={**draft.params, "owner": host_owners.name(owner)})


def _name(facts: Facts, cause: str) -> Message:
    """What users read of a cause; where only the GPU was recorded, nobody knows what the host does meanwhile."""
    is_unknown = cause == "host_code" and facts.is_gpu_alone
    return (_UNDERUTILIZED.text("host-unrecorded") if is_unknown else _CAUSES[cause])()


def _places_of(facts: Facts, found: idle_time.IdleDevice) -> tuple[CodePlace, ...]:
    """The first causes of idle time with that time per step."""
    times = [(cause.cause, found.per_step(cause.time_ns)) for cause in found.causes[:5]]
    return tuple(CodePlace("time", cause, value=ns, unit="ns", label=_name(facts, cause)) for cause, ns in times)


def _underutilized_in_table(facts: Facts, limits: Limits) -> Drafts:
    table = facts.table
    if table is None or table.device_share_at_most is None or not table.device_ns:
        raise Missing(_UNDERUTILIZED.text("no-device")())
    if (table.cpu_hidden_share or 0.0) > _UNSEEN:
        raise Missing(_UNDERUTILIZED.text("hidden")())
    busy = table.device_share_at_most
    if busy >= limits["busy_share"]:
        return
    chain = {"host": facts.resources.host_ns, "loader": facts.resources.loader_ns, "gpu": facts.resources.gpu_ns}
    times = sorted(((ns, name) for name, ns in chain.items() if ns), reverse=True)
    where = tuple(CodePlace("time", name, value=ns, unit="ns", label=RESOURCES[name]()) for ns, name in times)
    where += host_owners.largest_rows(facts)
    subject = _UNDERUTILIZED.text("subject-table")()
    evidence = _UNDERUTILIZED.evidence(limits, "busy_share", busy, where, subject=subject)
    yield Draft(
        (evidence,),
        advice=_CURES["dataloader"] if times[0][1] == "loader" else _UNDERUTILIZED.text("advice-table"),
        params={"busy": busy, "gpu": facts.resources.gpu_ns, "step": facts.step_ns},
        severity="critical" if busy < limits["critical_share"] else "high",
        confidence="B",
        summary=_UNDERUTILIZED.text("summary-table"),
    )


def _fluctuates(found: idle_time.IdleDevice) -> bool:
    """Whether the device has nothing to do in some parts of the recording and no pause in others."""
    low = found.device.low_busy_share
    high = found.device.high_busy_share
    return low is not None and high is not None and low < _LOW and high > _HIGH


def _unused(facts: Facts, limits: Limits) -> Drafts:
    own = facts.need_step_resources()
    if own.unused_device is None or own.step_ns < limits["step"]:
        return
    longest = sorted(if_known(lambda: facts.operators), key=lambda row: (-row.host_self_ns, row.name))[:5]
    where = tuple(CodePlace("operator", row.name, None, facts.per_step(row.host_self_ns), "ns") for row in longest)
    if where:
        evidence = _UNUSED.evidence(limits, "step", own.step_ns, where)
        yield Draft((evidence,), None, {"device": own.unused_device, "step": own.step_ns}, "high")


RULES = (
    _UNUSED.rule(trace=_unused),
    _UNDERUTILIZED.rule(trace=_underutilized_in_trace, table=_underutilized_in_table),
)
