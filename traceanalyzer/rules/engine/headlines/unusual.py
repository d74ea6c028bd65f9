"""The headline of recordings that do not show a program's usual work: captures, cut ones, hardly any work, no GPU."""

from __future__ import annotations

from msgspec.structs import replace

from traceanalyzer.analyzers.kernels.accelerators import Accelerators, AcceleratorUse
from traceanalyzer.analyzers.kernels.stretched_kernels import StretchedKernels
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import idle_time, program
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines import little_work, printed
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, unit
from traceanalyzer.rules.engine.headlines.typical import ALSO_PENDING, BLOCKED, BUSY, LATE, WORTH
from traceanalyzer.structure.recording import Recording

_is_call = finds(r"^(cuda|hip|cu|musa)[A-Z]")
_HARDLY = 0.05
"""Greatest share of a step in waits for the device with which it is done when the host is (own choice)."""
_QUICK_NS = 100_000
"""Mean time of a turn that reads a value in ns above which most of it may be a wait (own choice: ten operators)."""

_TURNS = Text(
    "headline-turns",
    "The GPUs of this program take turns: one waits for another for {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
_TURNS_WHY = Text(
    "detail-turns",
    "Work was launched for it meanwhile, but most likely needs what another GPU computes, such as earlier layers.",
)
_ALSO_TURNS = Text(
    "detail-also-turns",
    "For {part:part} kernels are queued, and most likely wait for another GPU of this program.",
    note="part is idle time of the GPU of a step",
)
_CAPTURE = Text(
    "headline-capture-2",
    "No verdict: this is the capture of graphs, in which no kernels run.",
    note="graphs are CUDA graphs or HIP graphs",
)
_RECORD_REPLAY = Text(
    "detail-record-replay-with",
    "Record a step that replays the graphs, and report on it with this file as --graph-capture.",
    note="graphs are CUDA graphs or HIP graphs",
)
_RECORD_REPLAYS = Text(
    "detail-record-replay", "Record a step that replays the graphs.", note="graphs are CUDA graphs or HIP graphs"
)
_CAPTURED = Text(
    "detail-captured", "Captured: launch calls: {launches:count}, device events: {events:count}.", note="of graphs"
)
_REMOVED = Text(
    "headline-removed-events-2", "Events are missing: {part:part} of this trace are empty although calls were counted."
)
_ACCELERATOR = Text(
    "headline-accelerator-2",
    "{vendor} device {device} is busy {part:part} from its first to its last event.",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; part reads: 140 of the 152 ms",
)
_ACTIVITIES = Text(
    "detail-accelerator",
    "Work runs for {work:ns}, transfers for {transfer:ns}, communication for {communication:ns}.",
)
_ACCELERATOR_COMPUTES = Text(
    "headline-accelerator-computes-2",
    "Limited by compute on {vendor} device {device}: it works {part:part}.",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; part reads: 140 of the 152 ms",
)
_ACCELERATOR_COMMUNICATES = Text(
    "headline-accelerator-communicates-2",
    "Limited by communication: {vendor} device {device} communicates {part:part}.",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number; part reads: 140 of the 152 ms",
)
_TASK = Text(
    "detail-accelerator-task",
    "Between its first and its last event, its largest task is {task} ({time:ns}).",
    note="it is a device; task is the name of an event",
)
_LEGACY = Text(
    "headline-legacy-list-2",
    "No verdict: {vendor} device {device} is in operators for {part:part}, waits for the CPU included.",
    note="vendor is a kind of device, such as CUDA; device is its number; part reads: 140 of the 152 ms",
)
_NO_WAITS = Text(
    "detail-legacy-list", "The legacy profiler's list does not show when the device waits for the CPU in operators."
)
_LEGACY_HOST = Text(
    "headline-legacy-list-host-2",
    "Limited by the CPU: {vendor} device {device} has nothing to do for {part:part}.",
    note="vendor is a kind of device, such as CUDA; device is its number; part reads: 140 of the 152 ms",
)
_SHARED = Text(
    "detail-gpu-shared",
    "Most likely another process uses this GPU for {part:part}: {runs:number} runs of {names:number} kernels take "
    "{beyond:ns} longer than elsewhere.",
    note="part reads: 35 of the 152 ms",
)
_LATE = Text(
    "headline-late-3",
    "The program waited {before:rounded_ns} before the first event, probably for a request; only {rest:rounded_ns} "
    "have events.",
    note="before and rest are times",
)
_LATE_WITH_LOADER = Text(
    "headline-late-loader-2",
    "The program waited {before:rounded_ns} before the first event, probably for DataLoader workers; only "
    "{rest:rounded_ns} have events.",
    note="before and rest are times; most likely for something that starts",
)
_LATE_IN_TRAINING = Text(
    "headline-late-training",
    "Nothing was recorded for {before:rounded_ns} before the first event; only {rest:rounded_ns} have events.",
    note="before and rest are times",
)
_AFTER_THAT = Text("detail-after-that", "After that: {headline}", note="headline is a sentence")
_WAITS_FOR_UNSEEN = Text(
    "headline-waits-for-unseen-2",
    "Most likely limited by the GPU: the CPU waits {part:part} of {unit} in {call}.",
    note="call is the name of a runtime call, such as cudaDeviceSynchronize; unit is in the genitive: each step",
)
_HARDLY_WAITS = Text(
    "headline-hardly-waits-2",
    "Most likely limited by the CPU: it waits for the GPU only {time:rounded_ns} of {step:rounded_ns}.",
)
_UNSEEN = Text(
    "headline-gpu-not-recorded",
    "No verdict: {sign} shows that a GPU works, but the GPU was not recorded.",
    note="sign is the name of an operator",
)
_UNSEEN_WAITED_FOR = Text(
    "headline-gpu-not-recorded-waits",
    "The GPU was not recorded: the CPU waits for it {part:part} of {unit}, mostly in {call}.",
    note="call is an operator, such as aten::item; unit is in the genitive: each step; part reads: 7 of the 10 s",
)
_READS = Text(
    "headline-reads-in-loop",
    "The CPU reads single values in a loop: {part:part} of {unit}, {calls:count} times {call}.",
    note="call is an operator, such as aten::item; unit is in the genitive: each step; part reads: 7 of the 10 s",
    one="The CPU reads a single value in a loop: {part:part} of {unit}, once {call}.",
)
_READS_WHY = Text(
    "detail-reads-in-loop",
    "Reading takes {time:ns} a turn, mostly Python and operators: the GPU is asked for one value at a time.",
)
_NOT_RECORDED = Text("detail-no-kernels", "Kernels were not recorded: add ProfilerActivity.CUDA.")


def with_sharing(facts: Facts, found: StepBound) -> StepBound:
    """Add that another process takes turns on the GPU, as kernels show that take longer than elsewhere."""
    runs = facts.find("stretched_kernels", StretchedKernels)
    if runs is None or not program.shares_gpu(facts, runs):
        return found
    part = facts.per_step(runs.beyond_ns), facts.step_ns
    return found.qualified(_SHARED, part=part, runs=runs.stretched, names=runs.names, beyond=runs.median_beyond_ns)


def with_turns(facts: Facts, found: StepBound) -> StepBound:
    """Say of launched work that waits which other GPU of the program it waits for, rather than something unknown."""
    time = idle_time.of_turns(facts)
    if not time:
        return found
    part = time, facts.step_ns
    others = tuple(each for each in found.details if each.id not in (ALSO_PENDING.id, BLOCKED.id))
    if found.message.id == LATE.id:
        message = _TURNS(part=part, unit=unit(facts.find("recording", Recording)))
        return replace(found, message=message, details=others).and_says(_TURNS_WHY)
    if len(others) == len(found.details):
        return found
    return replace(found, details=others).and_says(_ALSO_TURNS, part=part)


def unusual(facts: Facts) -> StepBound | None:
    """The headline of a recording or table that does not show a program's usual work; None for all others."""
    figures = facts.find("launches", LaunchFigures)
    recording = facts.find("recording", Recording)
    if facts.is_graph_capture and figures is not None and figures.capture is not None:
        capture = figures.capture
        captured = StepBound("capture", _CAPTURE(), None).qualified(_RECORD_REPLAY)
        return captured.and_says(_CAPTURED, launches=capture.launch_calls, events=capture.device_events)
    if figures is None and (of_other := _of_accelerator(facts)) is not None:
        return of_other
    window = None if recording is None else recording.window
    if window is not None and window.removed_ns >= MOST * (window.end_ns - window.start_ns) > 0:
        return StepBound("none", _REMOVED(part=(window.removed_ns, window.end_ns - window.start_ns)), None)
    if facts.is_graph_capture and window is None:
        return StepBound("capture", _CAPTURE(), None).qualified(_RECORD_REPLAYS)
    if facts.is_startup:
        return None
    return little_work.of_requests(facts, recording) or little_work.verdict(facts, recording)


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
        of_kinds = {"work": use.work_ns, "transfer": use.transfer_ns, "communication": use.communication_ns}
        told = StepBound("none", _ACCELERATOR(**said, part=(use.busy_ns, use.span_ns)), None)
        return told.and_says(_ACTIVITIES, **of_kinds)
    computes = use.work_ns >= use.communication_ns
    text, bound = (_ACCELERATOR_COMPUTES, "gpu-compute") if computes else (_ACCELERATOR_COMMUNICATES, "communication")
    part = (use.work_ns if computes else use.communication_ns, use.span_ns)
    told = StepBound(bound, text(**said, part=part), part[0] / part[1])
    return told.and_says(_TASK, task=use.tasks[0].name, time=use.tasks[0].total_ns)


def _of_legacy(facts: Facts, use: AcceleratorUse, said: dict[str, str]) -> StepBound:
    """The headline of a list of the legacy profiler in which the device may wait for the CPU in operators."""
    idle, own = use.span_ns - use.busy_ns, facts.step_resources
    loads = own is not None and own.loader_ns >= MOST * own.step_ns
    if idle < MOST * use.span_ns or loads:
        return StepBound("none", _LEGACY(**said, part=(use.busy_ns, use.span_ns)), None).qualified(_NO_WAITS)
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
    if waiting >= MOST * step:
        call = max(waits.rows, key=lambda row: (row.waiting_ns, row.call)).call
        message = _WAITS_FOR_UNSEEN(call=call, part=(waiting, step), unit=unit(recording))
        return StepBound("gpu-compute", message, waiting / step).qualified(_NOT_RECORDED)
    if waiting <= _HARDLY * step:
        message = _HARDLY_WAITS(step=step, time=waiting)
        return StepBound("host", message, 1 - waiting / step).qualified(_NOT_RECORDED)
    return None


def of_operators_alone(facts: Facts) -> StepBound | None:
    """The headline of operators of a device of which nothing was recorded, with the host's waits for it; else None."""
    sign = printed.sign(facts)
    recording = facts.find("recording", Recording)
    is_operator = any(row.name == sign for row in if_known(lambda: facts.operators))
    if recording is None or sign is None or facts.table is not None or not is_operator or marks.is_of_mac(sign):
        return None
    if (reads := _of_reads(facts, recording)) is not None:
        return reads
    name, time = little_work.unseen_wait(facts) or ("", 0.0)
    if time < WORTH * facts.step_ns or not facts.step_ns:
        return StepBound("none", _UNSEEN(sign=f"`{sign}`"), None).qualified(_NOT_RECORDED)
    message = _UNSEEN_WAITED_FOR(part=(time, facts.step_ns), unit=unit(recording), call=f"`{name}`")
    return StepBound("none", message, None).qualified(_NOT_RECORDED)


def _of_reads(facts: Facts, recording: Recording) -> StepBound | None:
    """The headline of a loop that reads values one by one for most of a step, too quickly for waits; else None."""
    reads = facts.find("value_reads", ValueReads)
    if reads is None or not reads.lines or not reads.readings:
        return None
    time, each = facts.per_step(reads.time_ns), reads.time_ns / reads.readings
    if not MOST * facts.step_ns <= time <= facts.step_ns or each > _QUICK_NS:
        return None
    calls = round(facts.per_step(reads.readings))
    call = "aten::item" if reads.lines[0].is_line else reads.lines[0].name
    message = _READS(part=(time, facts.step_ns), unit=unit(recording), calls=calls, call=f"`{call}`")
    found = StepBound("host", message, time / facts.step_ns).qualified(_NOT_RECORDED)
    return found.and_says(_READS_WHY, time=each)


def with_late_start(facts: Facts, found: StepBound) -> StepBound:
    """Say first that most of the recording is before the first event, where it is; what is left bounds nothing then."""
    before = program.waited_before_ns(facts)
    if not before or facts.summary is None:
        return found
    text = _LATE_IN_TRAINING if program.trains(facts) else _LATE
    text = _LATE_WITH_LOADER if program.has_loader(facts) else text
    late = StepBound("none", text(before=before, rest=facts.summary.span_ns), None, found.qualifier)
    late = late.and_says(_AFTER_THAT, headline=found.message)
    return replace(late, details=(*late.details, *found.details))
