"""Detects launches that hold a device up, and kernels that it starts late.

The rules are launch-bound-small-kernels, gpu-shared and graph-captured-again.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from traceanalyzer.analyzers.idle.step_idle import launching_gaps_at
from traceanalyzer.analyzers.kernels.stretched_kernels import StretchedKernels
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.launches.late_starts import LateStarts, late_starts_at
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, idle_time, program
from traceanalyzer.rules.engine.change import HostTime, StartsEarlier
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, OfEvents, page
from traceanalyzer.structure.events import EventSet

_LAUNCH_BOUND = page("launch-bound-small-kernels")
_GPU_SHARED = page("gpu-shared")
_CAPTURED_AGAIN = page("graph-captured-again")
_BY_HOST = ("launch_bound", "host_code")
_SOME_GRAPHS = 0.05
"""Own choice: share of kernel time from which on a program uses graphs."""
_MOSTLY_MODEL, _MOSTLY_KNOWN = 0.8, 0.5
"""Own choice: of the time of long gaps with an owner, and of all long gaps."""
_MUCH_SHARED = 0.2
"""Own choice: share of a step that another process takes from which on nothing else is worth looking at."""
_MOST_OF_REST = 0.5
"""Own choice: share of what is left of a start-up, in which operators still run for the first time."""
_ONE_GAP = 0.25
"""Own choice: a longer part of the idle time in one gap is a stall, not the time that launching takes."""


def _launch_bound(facts: Facts, limits: Limits) -> Drafts:
    found = idle_time.of_busiest(facts, limits["events"])
    launches = facts.need("launches", LaunchFigures)
    if found is None or program.replays_graphs(facts):
        return  # a program whose kernels mostly come from graphs already follows the advice
    is_whole = _is_model_alone(found)
    gaps = _launching_ns(found, is_whole=is_whole)
    time = fsum(gaps.values())
    parts = found.parts_without_profiler(facts, _with_stacks(found))
    step_ns = found.per_step(found.device.time_ns) if facts.is_startup else facts.step_ns  # the warm rest by itself
    share = parts.most * time / step_ns
    if share <= limits["gap_share"] or (facts.is_startup and share < _MOST_OF_REST):
        return
    owners = _owners(found)
    subject = _LAUNCH_BOUND.text("subject")()
    if owners:
        subject = _LAUNCH_BOUND.text("subject-listed")(shown=host_owners.total(owners), time=time)
    where = owners or _kernels(launches)
    advice = _asking(facts, found)
    evidence = _LAUNCH_BOUND.evidence(limits, "gap_share", share, where, subject=parts.counted(subject))
    yield Draft(
        (evidence,),
        _launched_faster(found, parts, gaps, is_whole=is_whole),
        {
            "gaps": found.per_step(_launching_gaps(found, is_whole=is_whole)),
            "time": OfEvents(time),
            "launches": found.per_step(found.device.events),
            "short": launches.short_kernels.calls_share,
        },
        part=EventSet.idle(max(gaps, key=lambda cause: gaps[cause])),
        ceiling=_ceiling(facts),
        confidence="C" if _ceiling(facts) or (facts.is_host_inflated and not parts.is_measured) else None,
        advice=advice or _advice(facts, launches),
        code="" if advice else None,
    )


def _asking(facts: Facts, found: idle_time.IdleDevice) -> Text | None:
    """The advice where the host asks for values or sizes between launches, where graphs end; None where it does not."""
    if program.loops_over_experts(facts):
        return _LAUNCH_BOUND.text("advice-experts")
    return _LAUNCH_BOUND.text("advice-values") if found.asks_often(facts) else None


def _ceiling(facts: Facts) -> str | None:
    """The greatest severity where gaps between launches say little: with little work, or of first launches."""
    if facts.tells_little:
        return "low"
    return "medium" if facts.is_startup else None


def _launched_faster(
    found: idle_time.IdleDevice, parts: idle_time.GapParts, gaps: Mapping[str, float], *, is_whole: bool
) -> HostTime:
    """The change without a part of the gaps."""
    time = fsum(gaps.values())
    least, most = parts.saved
    interval = least * time, most * time
    claims = {EventSet.idle("launch_bound"): most * gaps["launch_bound"]}
    if found.idle.has_stacks or is_whole:  # else host-python-gap reports the other part
        claims[EventSet.idle("host_code")] = most * gaps["host_code"]
    at = launching_gaps_at(waits=found.waits_again_and_again, whole=is_whole)
    basis = parts.basis(
        _LAUNCH_BOUND.text("basis-all"), _LAUNCH_BOUND.text("basis-measured"), _LAUNCH_BOUND.text("basis")
    )
    return HostTime(interval, basis, interval, claims, at=at)


def _launching_ns(found: idle_time.IdleDevice, *, is_whole: bool) -> dict[str, float]:
    """Time per step in gaps between launches by cause; without those of sync-between-launches."""
    times = {}
    for row in found.device.causes:
        if row.cause in _BY_HOST:
            after_waits = row.launching_after_waits_ns if found.waits_again_and_again else 0
            times[row.cause] = found.per_step(row.time_ns if is_whole else row.launching_ns - after_waits)
    return times


def _launching_gaps(found: idle_time.IdleDevice, *, is_whole: bool) -> int:
    """How many these gaps are."""
    device = found.device
    after_waits = device.launching_gaps_after_waits if found.waits_again_and_again else 0
    return device.launching_gaps - after_waits + (device.long_gaps if is_whole else 0)


def _owners(found: idle_time.IdleDevice) -> tuple[CodePlace, ...]:
    """Owners of the gaps; none where gaps after waits do not count."""
    if found.waits_again_and_again:
        return ()
    return host_owners.of_gaps(host_owners.named_first(found.device.launching_owners), found.idle.steps)


def _with_stacks(found: idle_time.IdleDevice) -> tuple[float, float]:
    """Least and greatest share of the gaps that goes away where recording stacks slowed the host down.

    With a host that is two to five times as fast, the gaps are another part of a step; of a device that does hardly
    anything, they are nearly all of it then as well.
    """
    busy = found.device.busy_ns / found.device.time_ns
    if busy >= 1:
        return 1 / idle_time.STACKS, 0.5
    twice = max(0.0, 1 - 2 * busy) / (1 - busy)
    most = max(0.0, 1 - idle_time.STACKS * busy) / (1 - busy)
    return max(1 / idle_time.STACKS, 0.5 * most), max(0.5, twice)


def _is_model_alone(found: idle_time.IdleDevice) -> bool:
    """Whether a graph of the whole step would contain what the host does in long gaps, too.

    The device must do next to nothing, nothing may wait for it, and the host must do little but run the model, without
    a stall.
    """
    device = found.device
    if idle_time.STACKS * device.busy_ns >= device.time_ns or found.waits_often:
        return False
    known = sum(row.time_ns for row in device.gap_owners)
    of_model = sum(row.time_ns for row in device.gap_owners if host_owners.is_of_model(row))
    long = (device.typical_host_gap_ns or 0.0) * max(1, device.owner_steps)
    if of_model < _MOSTLY_MODEL * known or not known >= _MOSTLY_KNOWN * long > 0:
        return False
    longest = max((min(row.longest_ns, row.time_ns) for row in device.host_gaps), default=0)
    return longest <= _ONE_GAP * found.per_step(device.time_ns - device.busy_ns)


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
    evidence = _CAPTURED_AGAIN.evidence(limits, "steps", every, where)
    params = {"steps": every, "captures": capture.captures, "replays": capture.replays}
    yield Draft((evidence,), None, params, "medium")


def _gpu_shared(facts: Facts, limits: Limits) -> Drafts:
    """Kernels that start late on a free device, or that another process interrupts while they run."""
    stretched = facts.find("stretched_kernels", StretchedKernels)
    if stretched is not None and program.shares_gpu(facts, stretched, limits["starts"], limits["share"]):
        yield _stretched(facts, stretched, limits)
        return
    yield from _late_starts(facts, limits)


def _stretched(facts: Facts, found: StretchedKernels, limits: Limits) -> Draft:
    """The finding about kernels with the time of another process in them."""
    where = tuple(CodePlace("kernel", row.kernel, None, row.duration_ns, "ns", row.start_ns) for row in found.longest)
    time = facts.per_step(found.beyond_ns)
    share, runs = _GPU_SHARED.text("subject-stretched")(), _GPU_SHARED.text("subject-runs")()
    evidence = (
        _GPU_SHARED.evidence(limits, "share", facts.step_share(time), where, subject=share),
        _GPU_SHARED.evidence(limits, "starts", found.stretched, where, subject=runs),
    )
    said = {
        "stretched": found.stretched,
        "names": found.names,
        "beyond": found.median_beyond_ns,
        "longest": found.longest[0].duration_ns,
        "usual": found.longest[0].usual_ns,
        "time": time,
        "share": facts.step_share(time),
    }
    title, summary = _GPU_SHARED.text("title-stretched"), _GPU_SHARED.text("summary-stretched")
    severity = "critical" if facts.step_share(time) >= _MUCH_SHARED else "high"  # no other time of the step is right
    return Draft(evidence, None, said, severity, title=title, summary=summary)


def _late_starts(facts: Facts, limits: Limits) -> Drafts:
    late = facts.need("late_starts", LateStarts)
    if late.late < limits["starts"] or not late.is_spread:
        return
    time = facts.per_step(late.typical_ns)
    of_typical, of_all = facts.step_share(time), late.all_ns / late.steps_ns if late.steps_ns else 0.0
    if max(of_typical, of_all) <= limits["share"]:
        return
    where = tuple(CodePlace("kernel", row.kernel, None, row.delay_ns, "ns", row.start_ns) for row in late.longest)
    starts = _GPU_SHARED.evidence(limits, "starts", late.late, where, subject=_GPU_SHARED.text("subject-starts")())
    said: dict[str, float | OfEvents] = {
        "late": late.late,
        "judged": late.judged,
        "median": late.median_ns,
        "longest": late.longest[0].delay_ns,
    }
    if of_typical > limits["share"]:
        change = StartsEarlier((0.0, time), _GPU_SHARED.text("basis")(), at=late_starts_at())
        said |= {"time": OfEvents(time), "share": OfEvents(time, is_share=True)}
        evidence = _GPU_SHARED.evidence(limits, "share", of_typical, where), starts
        yield Draft(evidence, change, said, ceiling="high")
        return
    said |= {"time": late.all_ns, "share": of_all, "all": late.steps_ns}
    evidence = _GPU_SHARED.evidence(limits, "share", of_all, where, subject=_GPU_SHARED.text("subject-all")()), starts
    yield Draft(evidence, None, said, "medium", summary=_GPU_SHARED.text("summary-all"))


RULES = (
    _LAUNCH_BOUND.rule(trace=_launch_bound),
    _GPU_SHARED.rule(trace=_gpu_shared),
    _CAPTURED_AGAIN.rule(trace=_captured_again),
)
