"""The headline of recordings that do not show a program's usual work: captures, cut ones, hardly any work, no GPU."""

from __future__ import annotations

from traceanalyzer.analyzers.kernels.accelerators import Accelerators, AcceleratorUse
from traceanalyzer.analyzers.kernels.stretched_kernels import StretchedKernels
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import kind_of_work, little_work, printed
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.typical import BUSY, StepBound
from traceanalyzer.structure.recording import Recording

_is_call = finds(r"^(cuda|hip|cu|musa)[A-Z]")
_HARDLY = 0.05
"""Greatest share of a step in waits for the device with which it is done when the host is (own choice)."""

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
_LEGACY = Text(
    "headline-legacy-list",
    "It is unknown what bounds the program: {vendor} device {device} is in operators for {part:part} between its first "
    "and its last one, but the list of the legacy profiler does not show when it waits for the CPU in them.",
    note="vendor is a kind of device, such as CUDA; device is its number; part reads: 140 of the 152 ms",
)
_LEGACY_HOST = Text(
    "headline-legacy-list-host",
    "Bound by the CPU: {vendor} device {device} has nothing to do for {part:part} between its first and its last "
    "operator.",
    note="vendor is a kind of device, such as CUDA; device is its number; part reads: 140 of the 152 ms",
)
_SHARED = Text(
    "headline-gpu-shared",
    "{headline} But {part:part} are most likely another process on this GPU: {runs:number} runs of {names:number} "
    "different kernels take {beyond:ns} longer than the same kernels elsewhere.",
    note="headline is a sentence; part reads: 35 of the 152 ms",
)
_LATE = Text(
    "headline-late-2",
    "The program waited for {before:rounded_ns} before the first event, most likely for a request, or for something "
    "that starts; only {rest:rounded_ns} have events. After that: {headline}",
    note="headline is a sentence; before and rest are times",
)
_LATE_WITH_LOADER = Text(
    "headline-late-loader",
    "The program waited for {before:rounded_ns} before the first event, most likely for something that starts, such as "
    "the workers of its DataLoader; only {rest:rounded_ns} have events. After that: {headline}",
    note="headline is a sentence; before and rest are times",
)
_WAITS_FOR_UNSEEN = Text(
    "headline-waits-for-unseen",
    "Most likely bound by the GPU, whose kernels were not recorded: for {part:part} of {unit} the host waits for it in "
    "{call}.",
    note="call is the name of a runtime call, such as cudaDeviceSynchronize; unit is in the genitive: a typical step",
)
_HARDLY_WAITS = Text(
    "headline-hardly-waits",
    "Most likely bound by the host: of the {step:rounded_ns} of {unit} it waits for the GPU for only "
    "{time:rounded_ns}, so the GPU is done as soon as everything is launched. Kernels were not recorded.",
    note="unit is in the genitive: a typical step",
)


def with_sharing(facts: Facts, found: StepBound) -> StepBound:
    """Add that another process takes turns on the GPU, as kernels show that take longer than elsewhere."""
    runs = facts.find("stretched_kernels", StretchedKernels)
    if runs is None or not program.shares_gpu(facts, runs):
        return found
    part = facts.per_step(runs.beyond_ns), facts.step_ns
    return found.and_says(_SHARED, part=part, runs=runs.stretched, names=runs.names, beyond=runs.median_beyond_ns)


def unusual(facts: Facts) -> StepBound | None:
    """The headline of a recording or table that does not show a program's usual work; None for all others."""
    figures = facts.find("launches", LaunchFigures)
    recording = facts.find("recording", Recording)
    if facts.is_graph_capture and figures is not None and figures.capture is not None:
        capture = figures.capture
        return StepBound("capture", _CAPTURE(launches=capture.launch_calls, events=capture.device_events), None)
    if figures is None and (found := _of_accelerator(facts)) is not None:
        return found
    window = None if recording is None else recording.window
    if window is not None and window.removed_ns >= MOST * (window.end_ns - window.start_ns) > 0:
        return StepBound("none", _REMOVED(part=(window.removed_ns, window.end_ns - window.start_ns)), None)
    if facts.is_graph_capture and window is None:
        return StepBound("capture", _CAPTURES(), None)
    return None if facts.is_startup else little_work.verdict(facts, recording)


def _of_accelerator(facts: Facts) -> StepBound | None:
    """The headline of a trace without a GPU: what its busiest other device does."""
    found = facts.find("accelerators", Accelerators)
    if found is None or not found.devices:
        return None
    use = found.devices[0]
    said = {"vendor": use.vendor, "device": "?" if use.device is None else str(use.device)}
    if use.returned_ns is not None and use.returned_ns < BUSY * use.span_ns:
        return _of_legacy(facts, use, said)
    if use.busy_share_of_span is None or use.busy_share_of_span < BUSY:
        of_span = {"busy": use.busy_ns, "span": use.span_ns, "share": use.busy_share_of_span}
        of_kinds = {"work": use.work_ns, "transfer": use.transfer_ns, "communication": use.communication_ns}
        return StepBound("none", _ACCELERATOR(**said, **of_span, **of_kinds), None)
    computes = use.work_ns >= use.communication_ns
    text, bound = (_ACCELERATOR_COMPUTES, "gpu-compute") if computes else (_ACCELERATOR_COMMUNICATES, "communication")
    part = (use.work_ns if computes else use.communication_ns, use.span_ns)
    message = text(**said, part=part, task=use.tasks[0].name, time=use.tasks[0].total_ns)
    return StepBound(bound, message, part[0] / part[1])


def _of_legacy(facts: Facts, use: AcceleratorUse, said: dict[str, str]) -> StepBound:
    """The headline of a list of the legacy profiler in which the device may wait for the CPU in operators."""
    idle, own = use.span_ns - use.busy_ns, facts.step_resources
    loads = own is not None and own.loader_ns >= MOST * own.step_ns
    if idle < MOST * use.span_ns or loads:
        return StepBound("none", _LEGACY(**said, part=(use.busy_ns, use.span_ns)), None)
    return StepBound("host", _LEGACY_HOST(**said, part=(idle, use.span_ns)), idle / use.span_ns)


def of_launches_alone(facts: Facts) -> StepBound | None:
    """The headline of launches whose kernels were not recorded, by how long the host waits for the device; else None.

    A program that waits in each step, and only for a moment, has a device that was done by then.
    """
    recording = facts.find("recording", Recording)
    waits = facts.find("synchronizations", Synchronizations)
    sign = printed.sign(facts)
    if recording is None or waits is None or facts.table is not None or sign is None or not _is_call(sign):
        return None
    waiting, step = waits.waiting_ns_per_step, facts.step_ns
    if waiting is None or not step or (waits.calls_per_step or 0.0) < 1:
        return None
    unit = kind_of_work.unit(recording)
    if waiting >= MOST * step:
        call = max(waits.rows, key=lambda row: (row.waiting_ns, row.call)).call
        return StepBound("gpu-compute", _WAITS_FOR_UNSEEN(call=call, part=(waiting, step), unit=unit), waiting / step)
    if waiting <= _HARDLY * step:
        return StepBound("host", _HARDLY_WAITS(step=step, unit=unit, time=waiting), 1 - waiting / step)
    return None


def with_late_start(facts: Facts, found: StepBound) -> StepBound:
    """Say first that most of the recording is before the first event, where it is; what is left bounds nothing then."""
    before = program.waited_before_ns(facts)
    if not before or facts.summary is None:
        return found
    text = _LATE_WITH_LOADER if program.has_loader(facts) else _LATE
    return StepBound("none", text(before=before, rest=facts.summary.span_ns, headline=found.message), None)
