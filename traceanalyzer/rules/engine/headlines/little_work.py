"""The headline of a recording in which a GPU has hardly any work: what the host does meanwhile, if that is known.

The host may stand still in one operator; or it may spend its time in calls that wait for the GPU or ask its driver for
memory, in operators that read numbers or sizes from the device: these take as long however little the GPU has to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from traceanalyzer.analyzers.host.stalls import HostStalls
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, unit
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean

_READING = (
    *("aten::item", "aten::nonzero", "aten::masked_select", "aten::unique_dim", "aten::unique_consecutive"),
    *("aten::_unique", "aten::_unique2", "aten::bincount", "aten::repeat_interleave", "aten::equal"),
)
"""Operators that wait for a value or for the size of their result; none of them calls another one."""
_COPY, _WAITING_COPY_NS = "aten::copy_", 200_000
"""A copy, and the mean time from which on it is not only launched but waited for (own choice: ten times a launch)."""
_FEW = 5
"""Least number of such calls (own choice: fewer may be those at the beginning and the end of a recording)."""

_HARDLY_ANY = Text(
    "headline-hardly-any-work-3",
    "Hardly any GPU work was recorded: {kernels:count} kernels in {busy:rounded_ns}, too little for a verdict.",
    one="Hardly any GPU work was recorded: one kernel in {busy:rounded_ns}, too little for a verdict.",
)
_STANDS_STILL = Text(
    "headline-cpu-stalls",
    "Limited by the CPU: it stalls {part:part} of {unit} in {operator}, usually microseconds.",
    note="operator is a name such as aten::expand, which takes microseconds as a rule; part reads: 10 of the 16 ms; "
    "unit is in the genitive",
)
_WAITS = Text(
    "headline-waits-for-little-2",
    "Limited by the CPU: {part:part} in waits for the GPU or its memory, mostly {name}.",
    note="name is an operator or a call such as aten::nonzero; part reads: 10 of the 16 ms; the CPU waits for the GPU, "
    "or for memory that it asks the driver for",
)
_FOR_REQUESTS = Text(
    "headline-waits-for-requests",
    "The program waits for requests in {owner}: {part:part} of {unit}.",
    note="owner is a function or mark; part reads: 48 of the 52 ms; unit is in the genitive: each step",
)
_BESIDE_REQUESTS = Text(
    "detail-beside-requests",
    "Without these waits {rest:rounded_ns} are left: only a trace under load shows what limits the program.",
    note="rest is a time",
)
_LITTLE = Text(
    "detail-little-work",
    "The GPU has hardly any work: {kernels:count} kernels in {busy:rounded_ns}.",
    one="The GPU has hardly any work: one kernel in {busy:rounded_ns}.",
)


def of_requests(facts: Facts, recording: Recording | None) -> StepBound | None:
    """The headline of a program that waits for requests for most of the time; None of others."""
    waits = host_owners.for_requests(facts)
    if recording is None or waits is None or not host_owners.waits_for_requests(facts):
        return None
    owner, time = waits
    part = (time, facts.step_ns)
    message = _FOR_REQUESTS(owner=host_owners.name(owner), part=part, unit=unit(recording))
    found = StepBound("none", message, time / facts.step_ns)
    return found.and_says(_BESIDE_REQUESTS, rest=facts.step_ns - time)


def verdict(facts: Facts, recording: Recording | None) -> StepBound | None:
    """The headline if the device has hardly any work: whether the host stands still or waits meanwhile; else None."""
    if facts.table is not None and facts.tells_little:
        kernels = sum(kernel.calls or 0 for kernel in facts.table.kernels)
        return StepBound("none", _HARDLY_ANY(kernels=kernels, busy=facts.table.device_ns), None)
    if recording is None or not recording.has_hardly_any_work:
        return None
    figures = facts.find("launches", LaunchFigures)
    of_ranks = facts.find("kernel_classes", KernelClasses)
    kernels = figures.kernels if figures else sum(row.calls for row in of_ranks.rows) if of_ranks else 0
    said = {"kernels": kernels, "busy": recording.device_busy_ns}
    return _stands_still(facts, recording, said) or _waits(facts, said) or StepBound("none", _HARDLY_ANY(**said), None)


def _stands_still(facts: Facts, recording: Recording, said: Mapping[str, int]) -> StepBound | None:
    """The headline if the host stands still in one operator for most of a step; else None."""
    stalls = facts.find("host_stalls", HostStalls)
    stalled = facts.per_step(stalls.time_ns) if stalls else 0.0
    if stalls is None or not stalls.rows or stalled < MOST * facts.step_ns:
        return None
    part = (stalled, facts.step_ns)
    operator = f"`{stalls.rows[0].name}`"
    message = _STANDS_STILL(part=part, unit=unit(recording), operator=operator)
    return StepBound("host", message, stalled / facts.step_ns).and_says(_LITTLE, **said)


def _waits(facts: Facts, said: Mapping[str, int]) -> StepBound | None:
    """The headline if the host waits for the device, or for its driver's memory, for most of a step; else None."""
    times = _waiting(facts)
    time, step = min(fsum(ns for ns, _ in times.values()), facts.step_ns), facts.step_ns
    if time < MOST * step or fsum(calls for _, calls in times.values()) < _FEW:
        return None
    name = max(times, key=lambda each: (times[each], each))
    message = _WAITS(part=(time, step), name=f"`{name}`")
    return StepBound("host", message, time / step).and_says(_LITTLE, **said)


def unseen_wait(facts: Facts) -> tuple[str, float] | None:
    """The operator in which the host waits longest for a device of which nothing was recorded, and time in ns in all.

    None if there are no such operators.
    """
    times = {name: time for name, (time, _) in _waiting(facts).items()}
    for row in if_known(lambda: facts.operators):
        if row.name == _COPY and row.host_self_ns >= _WAITING_COPY_NS * row.calls:
            times[_COPY] = facts.per_step(row.host_self_ns)
    if not times:
        return None
    return max(times, key=lambda name: (times[name], name)), min(fsum(times.values()), facts.step_ns)


def _waiting(facts: Facts) -> dict[str, tuple[float, float]]:
    """Time per step in ns, and calls per step, of operators that read from the device, other waits, and allocations."""
    reading = [row for row in if_known(lambda: facts.operators) if row.name in _READING]
    times = {row.name: (facts.per_step(row.host_total_ns), facts.per_step(row.calls)) for row in reading}
    waits, set_up = facts.find("synchronizations", Synchronizations), facts.find("runtime_calls", RuntimeCalls)
    for wait in waits.rows if waits else ():
        if not set(wait.operators) & times.keys() and wait.max_waiting_ns < MOST * facts.step_ns:
            _add(times, wait.call, facts.per_step(wait.waiting_ns), wait.calls_per_step or 0.0)
    if set_up is not None:
        for row in set_up.rows:
            if row.kind == "allocation":
                _add(times, row.name, mean(row.time_ns, max(1, set_up.steps)), mean(row.calls, max(1, set_up.steps)))
    return times


def _add(times: dict[str, tuple[float, float]], name: str, ns: float, calls: float) -> None:
    before = times.get(name, (0.0, 0.0))
    times[name] = before[0] + ns, before[1] + calls
