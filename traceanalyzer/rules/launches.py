"""Detects launches that hold a device up: launch-bound-small-kernels, and graph-captured-again."""

from __future__ import annotations

from functools import partial
from math import fsum

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepCause, StepIdle, launching_gaps_at
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, idle_time, program
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, OfEvents, page
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.typical import mean

_LAUNCH_BOUND = page("launch-bound-small-kernels")
_CAPTURED_AGAIN = page("graph-captured-again")
_BY_HOST = ("launch_bound", "host_code")
_SOME_GRAPHS = 0.05
"""Own choice: share of kernel time from which on a program uses graphs."""
_OF_MODEL = frozenset({"module", "backward", "autograd", "operator", "call", "library"})
"""Kinds of owners whose host time a graph of the model and its update contains, unless they have another purpose."""
_MOSTLY_MODEL, _MOSTLY_KNOWN = 0.8, 0.5
"""Own choice: of the time of long gaps with an owner, and of all long gaps."""
_ONE_GAP = 0.25
"""Own choice: a longer part of the idle time in one gap is a stall, not the time that launching takes."""


def _launch_bound_in_trace(facts: Facts, limits: Limits) -> Drafts:
    idle = idle_time.enough(facts, limits["events"])
    device, steps = idle_time.busiest(facts, idle), idle.steps
    launches = facts.need("launches", LaunchFigures)
    if device is None or not device.time_ns or program.replays_graphs(facts):
        return  # a program whose kernels mostly come from graphs already follows the advice
    stacks = facts.is_host_inflated
    measured = program.gaps_without_profiler(facts, device)
    least, most = measured or (_with_stacks(device) if stacks else (0.5, 1.0))
    waits, whole = idle_time.waits_again_and_again(idle, device), _is_model_alone(idle, device)
    counted = partial(_launching_ns, waits=waits, whole=whole)
    gaps = {row.cause: mean(counted(row), steps) for row in device.causes if row.cause in _BY_HOST}
    total = fsum(gaps.values())
    step = facts.step_ns
    share = most * total / step
    if share <= limits["gap_share"]:
        return
    subject, where = _LAUNCH_BOUND.text("subject")(), _kernels(launches)
    if not waits and (owners := host_owners.of_gaps(host_owners.named_first(device.launching_owners), steps)):
        subject = _LAUNCH_BOUND.text("subject-listed")(shown=host_owners.total(owners), time=total)
        where = owners
    evidence = Evidence(idle_time.counted(subject, most), share, limits["gap_share"], "share", where)
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    interval = (least * total, most * total)
    claims = {EventSet.idle("launch_bound"): most * gaps["launch_bound"]}
    if idle.has_stacks or whole:  # else host-python-gap reports the other part
        claims[EventSet.idle("host_code")] = most * gaps["host_code"]
    text = _LAUNCH_BOUND.text("basis-measured") if measured else _LAUNCH_BOUND.text("basis")
    basis = _LAUNCH_BOUND.text("basis-all")(least=least) if most == 1 else text(least=least, most=most)
    change = HostTime(interval, basis, interval, claims, at=launching_gaps_at(waits=waits, whole=whole))
    short = device.launching_gaps - (device.launching_gaps_after_waits if waits else 0)
    params = {
        "gaps": mean(short + (device.long_gaps if whole else 0), steps),
        "time": OfEvents(total),
        "launches": mean(device.events, steps),
        "short": launches.short_kernels.calls_share,
    }
    guessed = "C" if stacks and not measured else None
    values = idle_time.waits_often(idle, device)
    advice = _LAUNCH_BOUND.text("advice-values") if values else _advice(facts, launches)
    yield Draft((evidence,), change, params, None, _ceiling(facts), guessed, advice=advice, code="" if values else None)


def _ceiling(facts: Facts) -> str | None:
    """The severity that gaps between launches have at most: in a recording with hardly any work they say little."""
    return "low" if facts.tells_little else None


def _with_stacks(device: DeviceInSteps) -> tuple[float, float]:
    """Least and greatest share of the gaps that goes away where recording stacks slowed the host down.

    With a host that is two to five times as fast, the gaps are another part of a step; of a device that does hardly
    anything, they are nearly all of it then as well.
    """
    busy = device.busy_ns / device.time_ns
    twice, most = (max(0.0, 1 - faster * busy) / (1 - busy) if busy < 1 else 0.0 for faster in (2, idle_time.STACKS))
    return max(1 / idle_time.STACKS, 0.5 * most), max(0.5, twice)


def _is_model_alone(idle: StepIdle, device: DeviceInSteps) -> bool:
    """Whether a graph of the whole step would contain what the host does in long gaps, too.

    The device must do next to nothing, nothing may wait for it, and the host must do little but run the model, without
    a stall.
    """
    owners, gaps = device.gap_owners, device.host_gaps
    known = sum(row.time_ns for row in owners)
    own = sum(row.time_ns for row in owners if row.role is None and _is_of_model(row.kind, row.name))
    idle_ns, long = device.time_ns - device.busy_ns, (device.typical_host_gap_ns or 0.0) * max(1, device.owner_steps)
    return (
        idle_time.STACKS * device.busy_ns < device.time_ns
        and not idle_time.waits_often(idle, device)
        and own >= _MOSTLY_MODEL * known
        and known >= _MOSTLY_KNOWN * long > 0
        and max((min(row.longest_ns, row.time_ns) for row in gaps), default=0) <= _ONE_GAP * mean(idle_ns, idle.steps)
    )


def _is_of_model(kind: str, name: str) -> bool:
    return kind in _OF_MODEL or (kind == "mark" and (bool(marks.passes(name)) or marks.is_wrapper(name)))


def _launching_ns(row: StepCause, waits: bool, whole: bool) -> int:
    """Time in gaps between launches; without those of sync-between-launches where the host waits often."""
    if whole:
        return row.time_ns
    return row.launching_ns - (row.launching_after_waits_ns if waits else 0)


def _advice(facts: Facts, launches: LaunchFigures) -> Text | None:
    """The advice that applies to this program; None: all of the rule's advice."""
    if program.serves(facts):
        return _LAUNCH_BOUND.text("advice-serving")
    if (launches.graphs.kernel_share or 0.0) >= _SOME_GRAPHS:
        return _LAUNCH_BOUND.text("advice-graphs")
    if program.is_compiled(facts):
        return _LAUNCH_BOUND.text("advice-compiled")
    return None if program.may_train(facts) else _LAUNCH_BOUND.text("advice-inference")


def _kernels(launches: LaunchFigures) -> tuple[CodePlace, ...]:
    """Kernels that run for less time than their launch takes, the most frequent first."""
    rows = sorted(launches.by_kernel, key=lambda row: (-row.shorter_than_launch, row.name))
    return tuple(CodePlace("kernel", row.name, value=row.shorter_than_launch, unit="count") for row in rows[:5])


def _captured_again(facts: Facts, limits: Limits) -> Drafts:
    launches = facts.need("launches", LaunchFigures)
    capture, every = launches.capture, launches.typical_steps
    if capture is None or facts.is_graph_capture or every < limits["steps"] or launches.capturing_steps < every:
        return
    where = (CodePlace("call", "StreamBeginCapture", None, capture.captures, "count"),)
    evidence = Evidence(_CAPTURED_AGAIN.text("subject")(), every, limits["steps"], "count", where)
    params = {"steps": every, "captures": capture.captures, "replays": capture.replays}
    yield Draft((evidence,), None, params, "medium")


RULES = (_LAUNCH_BOUND.rule(trace=_launch_bound_in_trace), _CAPTURED_AGAIN.rule(trace=_captured_again))
