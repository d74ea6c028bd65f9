"""Headlines for captured graphs, removed events and devices that are not GPUs, where the usual one would be wrong."""

from __future__ import annotations

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.typical import StepBound
from traceanalyzer.structure.recording import Recording

_BUSY = 0.8
"""Share of the time that a device must work to bound the program, as for GPUs."""
_MOSTLY = 0.5
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
    "headline-hardly-any-work",
    "The recording contains hardly any work of the GPU: {kernels:count} kernels in {busy:ns}. That is too little to "
    "say what bounds the program.",
    one="The recording contains hardly any work of the GPU: one kernel in {busy:ns}. That is too little to say what "
    "bounds the program.",
)
_REMOVED = Text(
    "headline-removed-events",
    "Events are missing from this recording: for {part:part} it contains nothing although calls were counted, so it "
    "does not show what bounds the program.",
)
_ACCELERATOR = Text(
    "headline-accelerator",
    "{vendor} device {device} is busy for {busy:ns} of the {span:ns} between its first and its last event "
    "({share:share}): work runs for {work:ns}, transfers for {transfer:ns}, communication for {communication:ns}.",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number",
)
_COMPUTING = Text(
    "headline-accelerator-computes",
    "Bound by compute on {vendor} device {device}: it works for {part:part} of the time between its first and its "
    "last event; its largest task is {task} ({time:ns}).",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; task is the name of an event",
)
_COMMUNICATING = Text(
    "headline-accelerator-communicates",
    "Bound by communication: {vendor} device {device} communicates for {part:part} of the time between its first and "
    "its last event; its largest task is {task} ({time:ns}).",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; task is the name of an event",
)


def unusual(facts: Facts) -> StepBound | None:
    """The headline of a recording that does not show a program's usual work; None for all others."""
    if facts.table is not None:
        return _of_table(facts)
    figures, recording = facts.find("launches", LaunchFigures), facts.find("recording", Recording)
    if figures is not None and figures.capture is not None and figures.capture.is_most:
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
    if window is not None and window.removed_ns >= _MOSTLY * (window.end_ns - window.start_ns) > 0:
        return StepBound("none", _REMOVED(part=(window.removed_ns, window.end_ns - window.start_ns)), None)
    if window is None and recording.workload == "graph-capture":
        return StepBound("capture", _CAPTURES(), None)
    if recording.has_hardly_any_work and not facts.is_startup:
        of_ranks = facts.find("kernel_classes", KernelClasses)
        kernels = figures.kernels if figures else sum(row.calls for row in of_ranks.rows) if of_ranks else 0
        return StepBound("none", _HARDLY_ANY(kernels=kernels, busy=recording.device_busy_ns), None)
    return None


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
    text, bound = (_COMPUTING, "gpu-compute") if computes else (_COMMUNICATING, "communication")
    task = use.tasks[0]
    part = (use.work_ns if computes else use.communication_ns, use.span_ns)
    said = text(vendor=use.vendor, device=device, part=part, task=task.name, time=task.total_ns)
    return StepBound(bound, said, part[0] / part[1])
