"""The GPU is idle for a large part of the steps.

What it detects:
    A device on which, within the steps, kernels, copies and fills run for less than four fifths of the time. Each
    device is judged separately. Steps in which code is loaded or compiled, the time between steps and the time after
    the last device event do not count, nor does a wait for memory in the first recorded step only. In a table, device
    time divided by the larger of host and device time, which is the greatest possible busy share.

Why it matters:
    This is the first question about any recording: is the GPU the limit at all? If not, faster kernels do not help.

What to do:
    Look at the causes of the idle time, the largest first: there is a rule for each.

How the saving is estimated:
    Not by this rule: the rules about the causes estimate the saving of each. The causes sum to the idle time.

When it is wrong:
    Recordings with only a few kernels, only warm-up, or a device whose work is not in the trace are not judged. The
    profiler makes host times longer, most of all if it records stacks.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepIdle
from traceanalyzer.analyzers.tables.kinds import RowKind, is_sync
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle, _owners
from traceanalyzer.rules.engine.budget import RESOURCES
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.host_activity import is_loading_overhead

_ELSEWHERE = Text(
    "gpu-underutilized-elsewhere",
    "for most of the idle time the host waits for a GPU that does nothing: what it waits for was not recorded",
)
_SUBJECT = Text("gpu-underutilized-subject", "time in which device {device} works, share of the steps")
_SUBJECT_OWNERS = Text(
    "gpu-underutilized-subject-owners", "time in which device {device} does nothing, by part of the program"
)
_SUBJECT_TABLE = Text(
    "gpu-underutilized-subject-table", "time in which the device works, at most: share of the profiled time"
)
_SUMMARY_TABLE = Text(
    "gpu-underutilized-summary-table",
    "The GPU works for {gpu:ns} of {step:ns} of profiled time per step: it is busy for at most {busy:share}.",
)
_NO_DEVICE = Text("gpu-underutilized-no-device", "the table has no device time")
_FLUCTUATING = Text(
    "gpu-underutilized-summary-fluctuating",
    "Device {device} works for {busy:share} of the time of the steps: at times for all of it, at times for none. The "
    "largest part of the rest is {cause} ({cause_share:share} of the time).",
    note="cause is one of the gpu-underutilized texts about causes",
)
_CAUSES = {
    "dataloader": Text("gpu-underutilized-dataloader", "waiting for the DataLoader", note="a cause of idle time"),
    "communication": Text("gpu-underutilized-communication", "waiting in collectives"),
    "compilation": Text("gpu-underutilized-compilation", "compiling or loading code"),
    "allocation": Text("gpu-underutilized-allocation", "allocating memory"),
    "profiler_overhead": Text("gpu-underutilized-profiler", "the profiler itself"),
    "synchronization": Text(
        "gpu-underutilized-synchronization", "the host waiting for the GPU until nothing was queued"
    ),
    "launch_bound": Text("gpu-underutilized-launch-bound", "the host running operators and launches"),
    "host_code": Text("gpu-underutilized-host-code", "host code outside operators"),
    "unrecorded_work": Text("gpu-underutilized-unrecorded-work", "work that was launched before the recording began"),
    "pending": Text("gpu-underutilized-pending", "work that is launched but has to wait for something else"),
    "device_gap": Text("gpu-underutilized-device-gap", "pauses between queued kernels"),
    "unknown": Text("gpu-underutilized-unknown", "a cause that the trace does not show"),
}
_UNSEEN = 0.5
"""Share of the host time in rows that are not printed, from which on waiting cannot be distinguished from work
(own choice)."""
_NAMED = 0.1
"""Share of the step from which on a row of a table is named (own choice)."""
_MOST_NAMED = 3
_HIDDEN = Text(
    "gpu-underutilized-hidden",
    "most of the host time is in rows that are not printed, and may be waiting for the device: raise row_limit",
    note="row_limit is code",
)
_ONCE = ("allocation", "compilation")
"""Causes that the first steps of a program have and later ones do not."""
_HIGH = 0.9
_LOW = 0.1
"""Own choice: if parts of the recording are busy for less than the one share and others for more than the other, that
is not noise."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    if _waits_for_nothing(facts, found):
        raise Missing(_ELSEWHERE())
    for device in found.devices:
        if device.time_ns:
            yield from _judge(facts, device, found, limits)


def _waits_for_nothing(facts: Facts, found: StepIdle) -> bool:
    """Whether the host mostly waits for an idle device; with several devices, it may wait for another one."""
    waits = facts.find("synchronizations", Synchronizations)
    if waits is None or len(found.devices) != 1:
        return False
    return 2 * (waits.waiting_idle_ns or 0) > found.devices[0].time_ns - found.devices[0].busy_ns


def _judge(facts: Facts, device: DeviceInSteps, found: StepIdle, limits: Mapping[str, float]) -> Iterator[Draft]:
    busy = device.busy_ns / device.time_ns
    recurring = device.time_ns - _idle.only_in_first_step(found, device, *_ONCE)
    if max(busy, device.busy_ns / max(1.0, recurring)) >= limits["busy_share"]:
        return
    causes = sorted((cause for cause in device.causes if cause.time_ns), key=lambda cause: -cause.time_ns)
    where = tuple(
        CodePlace("time", cause.cause, value=cause.time_ns / found.steps, unit="ns", label=_CAUSES[cause.cause]())
        for cause in causes[:5]
    )
    evidence = Evidence(_SUBJECT(device=device.device), busy, limits["busy_share"], "share", where)
    params = {
        "device": device.device,
        "busy": busy,
        "cause": _CAUSES[causes[0].cause](),
        "cause_share": causes[0].time_ns / device.time_ns,
    }
    owners = _owners.places(facts, 5) if device is _idle.busiest(facts, found) else ()
    parts = (
        (Evidence(_SUBJECT_OWNERS(device=device.device), 1 - busy, 1 - limits["busy_share"], "share", owners),)
        if owners
        else ()
    )
    yield Draft(
        (evidence, *parts),
        params=params,
        severity="critical" if busy < limits["critical_share"] else "high",
        confidence=None if found.steps_from == "ProfilerStep" else "C",
        summary=_FLUCTUATING if _fluctuates(device) else None,
    )


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    table = facts.table
    if table is None or table.device_share_at_most is None or not table.device_ns:
        raise Missing(_NO_DEVICE())
    if (table.cpu_hidden_share or 0.0) > _UNSEEN:
        raise Missing(_HIDDEN())
    busy = table.device_share_at_most
    if busy >= limits["busy_share"]:
        return
    chain = {"host": facts.resources.host_ns, "loader": facts.resources.loader_ns, "gpu": facts.resources.gpu_ns}
    times = sorted(((ns, name) for name, ns in chain.items() if ns), reverse=True)
    where = tuple(CodePlace("time", name, value=ns, unit="ns", label=RESOURCES[name]()) for ns, name in times)
    evidence = Evidence(_SUBJECT_TABLE(), busy, limits["busy_share"], "share", (*where, *_largest_rows(facts)))
    yield Draft(
        (evidence,),
        params={"busy": busy, "gpu": facts.resources.gpu_ns, "step": facts.step_ns},
        severity="critical" if busy < limits["critical_share"] else "high",
        confidence="B",
        summary=_SUMMARY_TABLE,
    )


def _largest_rows(facts: Facts) -> tuple[CodePlace, ...]:
    """The rows in which the host works longest without what they call; waits and the profiler are no such work."""
    rows = facts.view.by_name if facts.view else ()
    works = [row for row, kind in rows if kind is not RowKind.OVERHEAD or is_loading_overhead(row.name)]
    times = [(facts.host_per_step(row.self_cpu_ns or 0), row.name) for row in works if not is_sync(row.name)]
    named = sorted((-time, name) for time, name in times if time >= _NAMED * facts.step_ns)
    return tuple(CodePlace("row", name, value=-time, unit="ns") for time, name in named[:_MOST_NAMED])


def _fluctuates(device: DeviceInSteps) -> bool:
    low, high = device.low_busy_share, device.high_busy_share
    return low is not None and high is not None and low < _LOW and high > _HIGH


RULE = Rule(
    id="gpu-underutilized",
    title=Text("gpu-underutilized-title", "The GPU is idle for a large part of the steps"),
    summary=Text(
        "gpu-underutilized-summary",
        "Device {device} works for {busy:share} of the time of the steps. The largest part of the rest is {cause} "
        "({cause_share:share} of the time).",
        note="cause is one of the gpu-underutilized texts about causes",
    ),
    advice=Text(
        "gpu-underutilized-advice",
        "Start with the largest part of the idle time; the other findings say what fixing each part is worth. Faster "
        "kernels do not help before that.",
    ),
    not_when=Text(
        "gpu-underutilized-not-when",
        "The recording is not typical: warm-up, evaluation, or a debugging run with synchronous launches.",
    ),
    severity="high to critical",
    confidence="A",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "busy_share",
            0.8,
            "share",
            "time in which the device works, over the steps",
            "own choice, because most training that a GPU bounds is above 90 %",
        ),
        Threshold(
            "critical_share",
            0.5,
            "share",
            "below this it is critical",
            "as the TensorBoard plugin, which advises below 50 %",
        ),
        _idle.EVENTS,
    ),
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    table=_table,
    sums_up_idle=True,
)
