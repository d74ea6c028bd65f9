"""Detects launches that hold a device up: launch-bound-small-kernels."""

from __future__ import annotations

from functools import partial
from math import fsum

from traceanalyzer.analyzers.idle.step_idle import StepCause, launching_gaps_at
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, idle_time, program
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, TimeSaved, page
from traceanalyzer.structure.portions import Portion
from traceanalyzer.structure.typical import mean

_LAUNCH_BOUND = page("launch-bound-small-kernels")
_BY_HOST = ("launch_bound", "host_code")
_SOME_GRAPHS = 0.05
"""Own choice: share of kernel time from which on a program uses graphs."""


def _launch_bound_in_trace(facts: Facts, limits: Limits) -> Drafts:
    idle = idle_time.enough(facts, limits["events"])
    device, steps = idle_time.busiest(facts, idle), idle.steps
    launches = facts.need("launches", LaunchFigures)
    if device is None or not device.time_ns or program.replays_graphs(facts):
        return  # a program whose kernels mostly come from graphs already follows the advice
    stacks = facts.is_host_inflated
    measured = program.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / idle_time.STACKS, 0.5) if stacks else (0.5, 1.0))
    waits = idle_time.waits_again_and_again(idle, device)
    gaps = {row.cause: mean(_launching_ns(row, waits), steps) for row in device.causes if row.cause in _BY_HOST}
    total = fsum(gaps.values())
    step = facts.step_ns
    share = most * total / step
    if share <= limits["gap_share"]:
        return
    subject, where = _LAUNCH_BOUND.text("subject")(), _kernels(launches)
    if not waits and (owners := host_owners.of_gaps(host_owners.named_first(device.launching_owners), steps)):
        subject = _LAUNCH_BOUND.text("subject-listed")(shown=host_owners.total(owners), time=total)
        where = owners
    evidence = Evidence(subject, share, limits["gap_share"], "share", where)
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    interval = (least * total, most * total)
    claims = {Portion.idle("launch_bound"): most * gaps["launch_bound"]}
    if idle.has_stacks:  # then host-python-gap may also report the other part
        claims[Portion.idle("host_code")] = most * gaps["host_code"]
    text = _LAUNCH_BOUND.text("basis-measured") if measured else _LAUNCH_BOUND.text("basis")
    basis = _LAUNCH_BOUND.text("basis-all")(least=least) if most == 1 else text(least=least, most=most)
    change = TimeSaved("host", interval, basis, interval, claims, at=partial(launching_gaps_at, waits=waits))
    params = {
        "gaps": mean(device.launching_gaps - (device.launching_gaps_after_waits if waits else 0), steps),
        "time": total,
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


def _launching_ns(row: StepCause, waits: bool) -> int:
    """Time in gaps between launches; without those of sync-between-launches where the host waits often."""
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


RULES = (_LAUNCH_BOUND.rule(trace=_launch_bound_in_trace),)
