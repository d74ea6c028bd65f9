"""The headline of a run: one sentence about what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from statistics import median
from typing import Any

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.host.stalls import HostStalls
from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Headline
from traceanalyzer.report.selection import Shares
from traceanalyzer.rules.engine import late_rank
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import causes, of_log, of_table, typical
from traceanalyzer.rules.engine.headlines.causes import MIXED, UNNAMED, gpu_bound
from traceanalyzer.rules.engine.headlines.typical import StepBound, with_outside
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import StepBreakdown
from traceanalyzer.structure.typical import mean

_BUSY = 0.8
"""Share of a step that the GPU must work to bound it (own choice: four fifths)."""
_STANDING = 0.5
"""Share of a step in which the host stands still from which on that bounds it, however little work there is."""
_WORTH = 0.2
"""Least share of a step that a loss must have to bound a run."""
_WORTH_OF_SLEEP = 0.1
"""Least share of a step for which the headline mentions sleep (own choice: half of the share that bounds a step)."""
_LOSSES = frozenset({"input", "host", "communication"})
_OUTSIDE_SHARE = 0.5
"""Own choice: from this share on, most of the recorded work is outside of the steps."""
_UNEVEN_RATIO = 2.0
"""Longest over shortest step from which on a mean over them is said to be of uneven steps (own choice)."""
_WARM_UP = 1.5
"""A first step longer than this factor times the median of the others is still warming up; the warning uses the same
limit."""

_WITH_GPU = {
    "input": Text(
        "headline-input-2",
        "Bound by input: for {part:part} of each step the GPU does nothing while the program waits for its DataLoader.",
    ),
    "host": Text(
        "headline-host-2",
        "Bound by the host: for {part:part} of each step the GPU does nothing because the CPU gives it no work.",
    ),
    "gpu-compute": Text(
        "headline-gpu-compute-2",
        "Bound by GPU compute: the GPU works for {part:part} of each step, mostly on matrix "
        "products, convolutions and attention.",
    ),
    "gpu-memory": Text(
        "headline-gpu-memory-2",
        "Bound by GPU memory: the GPU works for {part:part} of each step, mostly on operations that move data.",
    ),
    UNNAMED: Text(
        "headline-gpu-2",
        "Bound by the GPU: it works for {part:part} of each step. The names of its kernels "
        "do not show what most of this time is spent on.",
    ),
    "communication": Text(
        "headline-communication-2",
        "Bound by communication: for {part:part} of each step the GPU only communicates, or waits for other ranks.",
    ),
}
_WITHOUT_GPU = {
    "input": Text(
        "headline-cpu-input-2",
        "Bound by input: {part:part} of each step is waiting for the DataLoader. No GPU was recorded.",
    ),
    "communication": Text(
        "headline-cpu-communication-2",
        "Bound by communication: for {part:part} of each step collectives run and no "
        "operator is recorded. No GPU was recorded.",
    ),
    "host": Text(
        "headline-cpu-host-2",
        "Bound by the CPU: {part:part} of each step pass in the program itself. No GPU was recorded.",
    ),
}
_UNUSED = Text(
    "headline-cpu-unused-gpu",
    "The model runs on the CPU: {part:part} of each step pass in the program itself. Nothing was launched on {device}.",
    note="device is the name of a GPU; part reads: 21 % of the 150 ms",
)
_NOTHING = Text(
    "headline-none",
    "Nothing dominates a step of {step:ns}: the GPU works for {busy:share} of it, and no single cause "
    "explains the rest.",
)
_NO_GPU = Text(
    "headline-no-gpu",
    "GPU activity was not recorded, so it is unknown what bounds a step of {step:ns}; add ProfilerActivity.CUDA.",
)
_UNREAD = Text(
    "headline-unread-device-2",
    "It is unknown what bounds a step of {step:rounded_ns}: {sign} shows an accelerator, but the recording has none of "
    "its events in a known form.",
    note="sign is the name of an event, a category of events, or a device",
)
_ONE_RANK = Text(
    "headline-one-rank",
    "{headline} The trace of one rank does not show how much of that is waiting: compare all ranks (traceanalyzer "
    "ranks).",
    note="headline is a sentence",
)
_ASLEEP = Text(
    "headline-asleep",
    "{headline} For {part:part} of a step the program is asleep, or waits for a lock, a process, a file or the "
    "network.",
    note="headline is a sentence; part reads: 35 of the 152 ms",
)
_FIRST_STEP = Text(
    "headline-first-step",
    "{headline} This mean includes the first step of {first:ns}; the others take {median:ns} in the median.",
    note="headline is a sentence",
)
_UNEVEN = Text(
    "headline-uneven-steps",
    "{headline} This is a mean over uneven steps of {shortest:ns} to {longest:ns}.",
    note="headline is a sentence",
)
_OUTSIDE = Text(
    "headline-outside",
    "{headline} But {share:share} of the GPU's recorded work lies outside of the steps.",
    note="headline is a sentence",
)


def headline(facts: Facts, combined: Combined | None) -> Headline:
    """What bounds a run: the GPU if it works nearly all the time, else what the GPU waits for."""
    if facts.log is not None:
        said = of_log.headline(facts.need("compilation", CompiledCode), facts.log)
        return Headline(facts.run, "compilation", said.message, said.share, None, None)
    found = unusual(facts) or _of_typical_step(facts) or _of_parts(facts)
    message = with_outside(facts, of_table.with_communication(facts, found.bound, found.message))
    return Headline(facts.run, found.bound, message, found.share, facts.resources, combined, shares(facts))


def shares(facts: Facts) -> Shares | None:
    """What the device does in a typical step; None without a device, and for printed causes."""
    own = facts.step_resources if facts.table is None else None
    if own is None or own.gpu_ns is None or own.only_copies_ns is None or not own.step_ns:
        return None
    communicates = own.exposed_communication_ns or 0.0
    ranks = facts.find("ranks", Ranks)
    waits = None if ranks is None or ranks.exposed_wait_ns is None else min(ranks.exposed_wait_ns, communicates)
    return Shares(
        computes=(own.gpu_ns - own.only_copies_ns - communicates) / own.step_ns,
        copies=own.only_copies_ns / own.step_ns,
        communicates=(communicates - (waits or 0.0)) / own.step_ns,
        waits_for_ranks=None if waits is None else waits / own.step_ns,
        idle=1 - own.gpu_ns / own.step_ns,
    )


def _of_typical_step(facts: Facts) -> StepBound | None:
    """The headline of a trace, or of the ranks of a run, with events of a device."""
    recording = facts.find("recording", Recording)
    if recording is None or facts.is_startup:
        return None
    found = typical.verdict(facts, recording)
    if found is None:
        return None
    found = _with_waiting(facts, _with_sleep(facts, found))
    return StepBound(found.bound, _qualified(facts, found.message), found.share)


def _of_parts(facts: Facts) -> StepBound:
    """The headline of printed causes, runs of several ranks, and traces without a device or of a start-up."""
    times, texts = _of_run(facts) if facts.table is None else of_table.parts(facts)
    texts = texts or _WITHOUT_GPU
    bound = None if facts.is_startup else _bound(times, facts.step_ns)
    if bound is None:
        largest = max(times.values(), default=0.0)
        share = largest / facts.step_ns if facts.step_ns else None
        return StepBound("start-up" if facts.is_startup else "none", _qualified(facts, _nothing(facts)), share)
    share = times[bound] / facts.step_ns
    quantities: dict[str, Any] = {"part": (times[bound], facts.step_ns)}
    if texts is not _WITH_GPU and texts is not _WITHOUT_GPU:
        quantities = {"time": times[bound], "step": facts.step_ns, "share": share}
    message: Message = texts[bound](**quantities)
    own = facts.step_resources
    if bound == "host" and own is not None and own.unused_device:
        message = _UNUSED(device=own.unused_device, **quantities)
    if bound == "host" and texts is _WITHOUT_GPU:
        message = causes.with_operators(facts, message)
    said = _with_sleep(facts, StepBound("gpu-compute" if bound in (UNNAMED, MIXED) else bound, message, share))
    said = _with_waiting(facts, said)
    return StepBound(said.bound, _qualified(facts, said.message), said.share)


def _with_sleep(facts: Facts, found: StepBound) -> StepBound:
    """Add for how long the host sleeps or waits on the critical path, as far as stacks tell: that is no slow code."""
    path = facts.find("critical_path", CriticalPath)
    if found.bound != "host" or path is None or not path.step_ns:
        return found
    asleep = fsum(part.ns_per_step for part in path.parts if part.resource == "asleep")
    if asleep < _WORTH_OF_SLEEP * path.step_ns:
        return found
    return StepBound(found.bound, _ASLEEP(headline=found.message, part=(asleep, path.step_ns)), found.share)


def _with_waiting(facts: Facts, found: StepBound) -> StepBound:
    """Add how much of the communication is waiting for other ranks, or that a single rank cannot show it."""
    alone = facts.summary is not None and facts.summary.world_size == 1
    if found.bound == "communication" and not alone and facts.find("ranks", Ranks) is None:
        return StepBound(found.bound, _ONE_RANK(headline=found.message), found.share)
    own = facts.step_resources
    return late_rank.of_ranks(facts, found, (own.exposed_communication_ns or 0.0) if own else 0.0)


def _qualified(facts: Facts, message: Message) -> Message:
    """Add what makes a mean misleading: a first step unlike the others, uneven steps, or work outside of the steps."""
    first, *others = _durations(facts) or [0]
    if len(others) > 1 and first > _WARM_UP * median(others):
        message = _FIRST_STEP(headline=message, first=first, median=float(median(others)))
    elif others and max(first, *others) > _UNEVEN_RATIO * min(first, *others):
        message = _UNEVEN(headline=message, shortest=min(first, *others), longest=max(first, *others))
    own = facts.step_resources
    outside = own.outside_device_ns / own.recorded_device_ns if own and own.recorded_device_ns else 0.0
    return _OUTSIDE(headline=message, share=outside) if outside > _OUTSIDE_SHARE else message


def _durations(facts: Facts) -> list[float]:
    """Durations of the steps that count, in their order, if the profiler marked them; for several ranks the means."""
    recording, ranks = facts.find("recording", Recording), facts.find("ranks", Ranks)
    if recording is not None and ranks is None:
        counted = [step.duration_ns for step in recording.steps if step.is_typical]
        return list(counted) if recording.steps_from == "ProfilerStep" else []
    if facts.summary is None or facts.summary.steps_from != "ProfilerStep":
        return []
    if ranks is not None:
        return [step.mean_ns for step in ranks.steps]
    breakdown = facts.find("step_breakdown", StepBreakdown)
    return [step.duration_ns for step in breakdown.steps] if breakdown else []


def _bound(times: Mapping[str, float], step: float) -> str | None:
    """The GPU if it is busy, else the largest loss if it is large enough to name."""
    if not step:
        return None
    gpu = max((name for name in times if name.startswith("gpu")), key=lambda name: times[name], default=None)
    if gpu is not None and times[gpu] >= _BUSY * step:
        return gpu
    losses = {name: ns for name, ns in times.items() if name in _LOSSES and ns >= _WORTH * step}
    return max(losses, key=lambda name: losses[name], default=None)


def _nothing(facts: Facts) -> Message:
    if facts.is_startup:
        return causes.of_startup(facts)
    busy = facts.resources.gpu_ns
    if busy is None:
        if waiting := of_table.waiting(facts):
            return waiting
        sign = _sign(facts)
        return _UNREAD(step=facts.step_ns, sign=sign) if sign else _NO_GPU(step=facts.step_ns)
    if (unknown := of_table.unseen(facts)) is not None:
        return unknown
    return _NOTHING(step=facts.step_ns, busy=busy / facts.step_ns if facts.step_ns else None)


def _of_run(facts: Facts) -> of_table.Parts:
    resources = facts.need_step_resources()
    loader, step = resources.exposed_loader_ns, resources.step_ns
    if resources.gpu_ns is None:
        return _without_device(facts, loader), None
    communication = resources.exposed_communication_ns or 0.0
    times = {
        gpu_bound(facts): resources.gpu_ns - communication,
        "input": loader,
        "communication": communication,
        "host": _starved(facts, resources, step - resources.gpu_ns - loader),
    }
    return times, _WITH_GPU


def _starved(facts: Facts, resources: StepResources, idle: float) -> float:
    """Idle time during which the host works."""
    if facts.resources.host_ns is None:
        return 0.0
    return max(0.0, min(resources.host_ns, idle - facts.idle_per_step("compilation", "allocation", "unknown")))


def _without_device(facts: Facts, loader: float) -> dict[str, float]:
    """Times by bound without a device; only the loader's if an accelerator took part that was not recorded."""
    if _sign(facts):
        return {"input": loader}
    own = facts.step_resources
    collectives = (own.exposed_communication_ns or 0.0) if own else 0.0
    return {"input": loader, "communication": collectives, "host": max(0.0, facts.step_ns - loader - collectives)}


def _sign(facts: Facts) -> str | None:
    """The sign that an accelerator took part although its events were not recorded."""
    if facts.view is not None:
        return of_table.sign(facts.view)
    own = facts.step_resources
    return own.unread_device if own else None


_MOSTLY_MISSING = 0.5
"""Share of the recording without events from which on the headline speaks of nothing else (own choice)."""

_CAPTURE = Text(
    "headline-capture",
    "The recording contains the capture of graphs (launch calls: {launches:count}, device events: {events:count}). "
    "Kernels do not run while they are captured, so the recording does not show what bounds the program. Record a "
    "step that replays the graphs, and report on it with this file as --graph-capture.",
    note="graphs are CUDA graphs or HIP graphs",
)
_CAPTURES = Text(
    "headline-capture-of-ranks",
    "The recordings of the ranks contain the capture of graphs. Kernels do not run while they are captured, so the "
    "recordings do not show what bounds the program. Record a step that replays the graphs.",
    note="graphs are CUDA graphs or HIP graphs",
)
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
_REMOVED = Text(
    "headline-removed-events",
    "Events are missing: for {part:part} the recording contains nothing although calls were counted, so it does not "
    "show what bounds the program.",
)
_ACCELERATOR = Text(
    "headline-accelerator",
    "{vendor} device {device} is busy for {busy:ns} of the {span:ns} between its first and its last event "
    "({share:share}): work runs for {work:ns}, transfers for {transfer:ns}, communication for {communication:ns}.",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number",
)
_ACCELERATOR_COMPUTES = Text(
    "headline-accelerator-computes",
    "Bound by compute on {vendor} device {device}: it works for {part:part} between its first and its last "
    "event. Its largest task is {task} ({time:ns}).",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; task is the name of an event",
)
_ACCELERATOR_COMMUNICATES = Text(
    "headline-accelerator-communicates",
    "Bound by communication: {vendor} device {device} communicates for {part:part} between its first and its "
    "last event. Its largest task is {task} ({time:ns}).",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; task is the name of an event",
)


def unusual(facts: Facts) -> StepBound | None:
    """The headline of a recording that does not show a program's usual work; None for all others."""
    if facts.table is not None:
        return _of_table(facts)
    figures, recording = facts.find("launches", LaunchFigures), facts.find("recording", Recording)
    if figures is not None and figures.capture is not None and facts.is_graph_capture:
        capture = figures.capture
        return StepBound("capture", _CAPTURE(launches=capture.launch_calls, events=capture.device_events), None)
    if figures is None and (found := _accelerator(facts)) is not None:
        return found
    return None if recording is None else _of_recording(facts, figures, recording)


def _of_table(facts: Facts) -> StepBound | None:
    """The headline of a table with hardly any work."""
    if facts.table is None or not facts.tells_little or facts.is_startup:
        return None
    kernels = sum(kernel.calls or 0 for kernel in facts.table.kernels)
    return StepBound("none", _HARDLY_ANY(kernels=kernels, busy=facts.table.device_ns), None)


def _of_recording(facts: Facts, figures: LaunchFigures | None, recording: Recording) -> StepBound | None:
    """The headline of a recording that lacks most of the program's work."""
    window = recording.window
    if window is not None and window.removed_ns >= _MOSTLY_MISSING * (window.end_ns - window.start_ns) > 0:
        return StepBound("none", _REMOVED(part=(window.removed_ns, window.end_ns - window.start_ns)), None)
    if window is None and recording.workload == "graph-capture":
        return StepBound("capture", _CAPTURES(), None)
    if recording.has_hardly_any_work and not facts.is_startup:
        of_ranks = facts.find("kernel_classes", KernelClasses)
        kernels = figures.kernels if figures else sum(row.calls for row in of_ranks.rows) if of_ranks else 0
        said = {"kernels": kernels, "busy": recording.device_busy_ns}
        return _of_stall(facts, recording, said) or StepBound("none", _HARDLY_ANY(**said), None)
    return None


def _of_stall(facts: Facts, recording: Recording, said: Mapping[str, Any]) -> StepBound | None:
    """The headline of a recording of little work in which the host stands still most of the time."""
    stalls = facts.find("host_stalls", HostStalls)
    if stalls is None or not stalls.rows or recording.typical is None:
        return None
    stalled = mean(stalls.time_ns, recording.typical.steps)
    if stalled < _STANDING * facts.step_ns:
        return None
    part, operator = (stalled, facts.step_ns), f"`{stalls.rows[0].name}`"
    message = _STANDS_STILL(part=part, unit=typical.unit(recording), operator=operator, **said)
    return StepBound("host", message, stalled / facts.step_ns)


def _accelerator(facts: Facts) -> StepBound | None:
    """The headline of a trace without a GPU: what its busiest other device does."""
    found = facts.find("accelerators", Accelerators)
    if found is None or not found.devices:
        return None
    use = found.devices[0]
    device = "?" if use.device is None else str(use.device)
    if use.busy_share_of_span is None or use.busy_share_of_span < _BUSY:
        message = _ACCELERATOR(
            vendor=use.vendor,
            device=device,
            busy=use.busy_ns,
            span=use.span_ns,
            share=use.busy_share_of_span,
            work=use.work_ns,
            transfer=use.transfer_ns,
            communication=use.communication_ns,
        )
        return StepBound("none", message, None)
    computes = use.work_ns >= use.communication_ns
    text, bound = (_ACCELERATOR_COMPUTES, "gpu-compute") if computes else (_ACCELERATOR_COMMUNICATES, "communication")
    task = use.tasks[0]
    part = (use.work_ns if computes else use.communication_ns, use.span_ns)
    said = text(vendor=use.vendor, device=device, part=part, task=task.name, time=task.total_ns)
    return StepBound(bound, said, part[0] / part[1])
