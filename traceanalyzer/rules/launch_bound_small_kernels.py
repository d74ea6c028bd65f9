"""Detects launch-bound-small-kernels: see pages/launch-bound-small-kernels.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepCause
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle, _owners
from traceanalyzer.rules.engine import program, settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("launch-bound-small-kernels")
_BY_HOST = ("launch_bound", "host_code")
_IN_GRAPHS = 0.5
"""Own choice: a program whose kernels mostly come from graphs already follows the advice."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    device = _idle.busiest(facts, found)
    launches = facts.need("launches", LaunchFigures)
    if device is None or not device.time_ns or (launches.graphs.kernel_share or 0.0) >= _IN_GRAPHS:
        return
    stacks = facts.is_host_inflated
    measured = settings.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / _idle.STACKS, 0.5) if stacks else (0.5, 1.0))
    waits = _idle.waits_again_and_again(found, device)
    gaps = {row.cause: _launching_ns(row, waits) / found.steps for row in device.causes if row.cause in _BY_HOST}
    total = sum(gaps.values())
    share = most * total / (device.time_ns / found.steps)
    if share <= limits["gap_share"]:
        return
    listed = () if waits else _owners.of_gaps(_owners.named_first(device.launching_owners), found.steps)
    subject = (
        _PAGE.text("subject-listed")(shown=_owners.total(listed), time=total) if listed else _PAGE.text("subject")()
    )
    evidence = Evidence(subject, share, limits["gap_share"], "share", listed or _kernels(launches))
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    interval = (least * total, most * total)
    claims = {"idle:launch_bound": most * gaps["launch_bound"]}
    if found.has_stacks:  # then host-python-gap may also report the other part
        claims["idle:host_code"] = most * gaps["host_code"]
    change = TimeSaved("host", interval, _basis(least, most, is_measured=measured is not None), interval, claims)
    guessed = "C" if stacks and not measured else None
    params = _params(device, launches, found.steps, total, waits)
    values = _idle.waits_often(found, device)
    advice = _PAGE.text("advice-values") if values else _advice(facts, launches)
    yield Draft((evidence,), change, params, confidence=guessed, advice=advice, code="" if values else None)


def _basis(least: float, most: float, *, is_measured: bool) -> Message:
    """How much of the gaps goes away, and why."""
    if most == 1:
        return _PAGE.text("basis-all")(least=least)
    return (_PAGE.text("basis-measured") if is_measured else _PAGE.text("basis"))(least=least, most=most)


def _launching_ns(row: StepCause, waits: bool) -> int:
    """Time in gaps between launches; without those of sync-between-launches where the host waits often."""
    return row.launching_ns - (row.launching_after_waits_ns if waits else 0)


def _advice(facts: Facts, launches: LaunchFigures) -> Text | None:
    """The advice that applies to this program; None: all of the rule's advice."""
    if program.serves(facts):
        return _PAGE.text("advice-serving")
    if (launches.graphs.kernel_share or 0.0) >= _SOME_GRAPHS:
        return _PAGE.text("advice-graphs")
    if program.is_compiled(facts):
        return _PAGE.text("advice-compiled")
    return None if program.may_train(facts) else _PAGE.text("advice-inference")


def _params(
    device: DeviceInSteps, launches: LaunchFigures, steps: int, total: float, waits: bool
) -> dict[str, float | None]:
    return {
        "gaps": (device.launching_gaps - (device.launching_gaps_after_waits if waits else 0)) / steps,
        "time": total,
        "launches": device.events / steps,
        "short": launches.short_kernels.calls_share,
    }


def _kernels(launches: LaunchFigures) -> tuple[CodePlace, ...]:
    """Kernels that run for less time than their launch takes, the most frequent first."""
    rows = sorted(launches.by_kernel, key=lambda row: (-row.shorter_than_launch, row.name))
    return tuple(CodePlace("kernel", row.name, value=row.shorter_than_launch, unit="count") for row in rows[:5])


_SOME_GRAPHS = 0.05
"""Own choice: share of kernel time from which on a program uses graphs."""


RULE = _PAGE.rule(trace=_trace)
