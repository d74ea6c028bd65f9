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
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines import kind_of_work
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.typical import StepBound
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean

_READING = (
    *("aten::item", "aten::nonzero", "aten::masked_select", "aten::unique_dim", "aten::unique_consecutive"),
    *("aten::_unique", "aten::_unique2", "aten::bincount", "aten::repeat_interleave", "aten::equal"),
)
"""Operators that wait for a value or for the size of their result; none of them calls another one."""
_FEW = 5
"""Least number of such calls (own choice: fewer may be those at the beginning and the end of a recording)."""

_HARDLY_ANY = Text(
    "headline-hardly-any-work-2",
    "The recording contains hardly any work of the GPU: {kernels:count} kernels in {busy:rounded_ns}. That is too "
    "little to say what bounds the program.",
    one="The recording contains hardly any work of the GPU: one kernel in {busy:rounded_ns}. That is too little to "
    "say what bounds the program.",
)
_STANDS_STILL = Text(
    "headline-stands-still",
    "Bound by the host: for {part:part} of {unit} it stands still in {operator}, which takes microseconds as a rule. "
    "The GPU has hardly any work: {kernels:count} kernels in {busy:rounded_ns}.",
    one="Bound by the host: for {part:part} of {unit} it stands still in {operator}, which takes microseconds as a "
    "rule. The GPU has hardly any work: one kernel in {busy:rounded_ns}.",
    note="operator is a name such as aten::expand; part reads: 63 % of the 16 ms; unit is in the genitive",
)
_WAITS = Text(
    "headline-waits-for-little",
    "Bound by the host: for {part:part} of {unit} it is in calls that wait for the GPU or take memory from its driver, "
    "most often in {name}. The GPU has hardly any work: {kernels:count} kernels in {busy:rounded_ns}.",
    one="Bound by the host: for {part:part} of {unit} it is in calls that wait for the GPU or take memory from its "
    "driver, most often in {name}. The GPU has hardly any work: one kernel in {busy:rounded_ns}.",
    note="name is an operator or a call such as aten::nonzero; part reads: 63 % of the 16 ms; unit is in the genitive",
)


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
    return (
        _stands_still(facts, recording, said)
        or _waits(facts, recording, said)
        or StepBound("none", _HARDLY_ANY(**said), None)
    )


def _stands_still(facts: Facts, recording: Recording, said: Mapping[str, int]) -> StepBound | None:
    """The headline if the host stands still in one operator for most of a step; else None."""
    stalls = facts.find("host_stalls", HostStalls)
    stalled = facts.per_step(stalls.time_ns) if stalls else 0.0
    if stalls is None or not stalls.rows or stalled < MOST * facts.step_ns:
        return None
    part = (stalled, facts.step_ns)
    operator = f"`{stalls.rows[0].name}`"
    message = _STANDS_STILL(part=part, unit=kind_of_work.unit(recording), operator=operator, **said)
    return StepBound("host", message, stalled / facts.step_ns)


def _waits(facts: Facts, recording: Recording, said: Mapping[str, int]) -> StepBound | None:
    """The headline if the host waits for the device, or for its driver's memory, for most of a step; else None."""
    times = _waiting(facts)
    time, step = min(fsum(ns for ns, _ in times.values()), facts.step_ns), facts.step_ns
    if time < MOST * step or fsum(calls for _, calls in times.values()) < _FEW:
        return None
    name = max(times, key=lambda each: (times[each], each))
    message = _WAITS(part=(time, step), unit=kind_of_work.unit(recording), name=f"`{name}`", **said)
    return StepBound("host", message, time / step)


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
