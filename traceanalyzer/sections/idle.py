"""How busy is each GPU, and when and why is it idle?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from traceanalyzer.analyzers.idle import Cause, DeviceIdle, Idle
from traceanalyzer.analyzers.idle.gpu import DeviceUse, GpuMetrics
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import word
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, known, optional, table
from traceanalyzer.structure.recording import Recording

_GPU_TITLE = Text("gpu-title", "GPU")
TITLE = Text("idle-title", "GPU idle time by cause")
_STREAMS = Text("idle-streams-title", "Idle time by stream")
_LONGEST = Text("idle-longest-title", "Longest gaps")
CAUSE_LABELS = {
    "dataloader": Text("idle-dataloader", "Waiting for the DataLoader"),
    "communication": Text("idle-communication", "Waiting in a collective"),
    "compilation": Text("idle-compilation", "Compiling or loading code"),
    "allocation": Text("idle-allocation", "Allocating memory"),
    "profiler_overhead": Text("idle-profiler-overhead", "Profiler overhead"),
    "cpu_operators": Text("idle-cpu-operators", "Operators that compute on the CPU"),
    "synchronization": Text("idle-after-sync", "After a synchronization"),
    "launch_bound": Text("idle-in-operators", "CPU inside operators"),
    "host_code": Text("idle-between-operators", "CPU between operators"),
    "unrecorded_work": Text("idle-unrecorded-work", "Work from before the trace"),
    "pending": Text("idle-pending", "Launched, but waiting for something else"),
    "device_gap": Text("idle-device-gap", "Pauses between queued kernels"),
    "unknown": Text("idle-unknown", "Unknown"),
}
_NOTHING_RECORDED = Text("idle-gap-nothing-recorded", "(nothing recorded)", "the host was in no operator and no call")
_NO_MORE = Text("idle-gap-no-more", "(no further activity)", "of the GPU")
_CAUSE = Column(Text("idle-cause", "Cause"), "", lambda row: word(CAUSE_LABELS, row.cause))
_CAUSE_COLUMNS = (
    columns.GPU.of("device.device"),
    _CAUSE.of(lambda row: word(CAUSE_LABELS, row.cause.cause)),
    Column(Text("idle-per-step", "Time/step", "of a typical step"), "ns", "ns_per_step", if_any=known),
    columns.TIME.of("cause.time_ns"),
    Column(Text("idle-share", "Share of idle"), "share", "cause.share", has_bar=True),
    Column(
        Text("idle-window-share", "Share of window"),
        "share",
        lambda row: row.cause.time_ns / row.device.window_ns if row.device.window_ns else None,
    ),
    Column(Text("idle-gaps", "Gaps"), "count", "cause.gaps"),
)
_STREAM_COLUMNS = (
    columns.GPU,
    columns.STREAM,
    Column(Text("idle-stream-busy", "Busy"), "ns", "busy_ns"),
    columns.IDLE,
    Column(Text("idle-host-wait", "CPU wait", "HTA's term: the launch came late"), "ns", "host_wait.time_ns"),
    Column(
        Text("idle-kernel-wait", "Kernel wait", "HTA's term: a short pause between kernels"),
        "ns",
        "kernel_wait.time_ns",
    ),
    Column(Text("idle-other", "Other"), "ns", "other.time_ns"),
    Column(Text("idle-edge", "Before first, after last"), "ns", "edge_ns"),
)
_GAP_COLUMNS = (
    columns.GPU,
    Column(Text("idle-gap-start", "Start"), "ns", "start_ns"),
    columns.DURATION,
    _CAUSE,
    Column(
        Text("idle-gap-host", "CPU was in"),
        "",
        lambda gap: gap.call or gap.operator or gap.annotation or _NOTHING_RECORDED,
        is_name=True,
    ),
    columns.OWNER,
    columns.PYTHON_LINE,
    Column(Text("idle-gap-next", "Ended by"), "", lambda gap: gap.next_event or _NO_MORE, is_name=True),
)
_TERMS = (
    Term(
        Text("define-idle", "Idle causes"),
        Text(
            "define-idle-say",
            "Every nanosecond of idle time has one cause: what the launching thread did while the GPU waited "
            "for it, or a pause between kernels that were already queued. The causes of a GPU sum to its idle"
            " time.",
        ),
    ),
)
_UTILIZATION = Text("gpu-utilization", "Utilization", "share of the typical steps in which a kernel runs")
_BUSY = Text("gpu-busy", "Busy", "share in which a kernel, copy or fill runs")
_EFFICIENCY = Text("gpu-sm-efficiency", "Est. SM efficiency")


def _all_steps(field: str) -> Callable[[DeviceUse], float | None]:
    """A figure of a device in all steps, where it is another one than in the typical steps."""

    def cell(device: DeviceUse) -> float | None:
        value: float | None = getattr(device, field)
        return None if device.typical is None or getattr(device.typical, field) == value else value

    return cell


def _in_steps(field: str) -> Callable[[DeviceUse], float | None]:
    """A figure of a device in the typical steps; in reports of old versions, in all steps."""
    return lambda device: getattr(device.typical or device, field)


_TYPICAL_COLUMNS = (
    columns.GPU,
    Column(_UTILIZATION, "share", _in_steps("utilization"), has_bar=True),
    Column(_BUSY, "share", _in_steps("busy_share")),
    Column(columns.IDLE.title, "share", lambda device: 1 - (device.typical or device).busy_share, is_extra=True),
    Column(_EFFICIENCY, "share", _in_steps("est_sm_efficiency")),
    Column(columns.OCCUPANCY, "share", _in_steps("est_achieved_occupancy")),
    Column(columns.TENSOR_CORES, "share", _in_steps("tensor_core_share")),
)
_ALL_COLUMNS = (
    Column(Text("gpu-utilization-all", "Utilization (all steps)"), "share", _all_steps("utilization"), is_extra=True),
    Column(Text("gpu-busy-all", "Busy (all steps)"), "share", _all_steps("busy_share"), is_extra=True),
    Column(
        Text("gpu-sm-efficiency-all", "Est. SM efficiency (all steps)"),
        "share",
        _all_steps("est_sm_efficiency"),
        is_extra=True,
    ),
    Column(
        Text("gpu-occupancy-all", "Est. occupancy (all steps)"),
        "share",
        _all_steps("est_achieved_occupancy"),
        is_extra=True,
    ),
)
_GPU_TERMS = (
    Term(
        _UTILIZATION,
        Text(
            "define-utilization-say",
            "Share of the typical steps in which at least one kernel runs. One tiny kernel at a time gives 100 %.",
        ),
    ),
    Term(
        Text("define-busy", "Busy, Idle"),
        Text("define-busy-say", "Share of the typical steps in which a kernel, copy or fill runs; idle is the rest."),
    ),
    Term(
        Text("define-efficiency", "Est. SM efficiency"),
        Text(
            "define-efficiency-say",
            "The profiler's estimate of how many multiprocessors have work: min(1, blocks per SM of all "
            "running kernels), averaged over the typical steps.",
        ),
    ),
    Term(
        Text("define-occupancy", "Est. occupancy"),
        Text(
            "define-occupancy-say",
            "The profiler's estimate of achieved occupancy, weighted by the time of the kernels. Low values "
            "are normal for matrix kernels.",
        ),
    ),
    Term(
        columns.TENSOR_CORES,
        Text("define-tensor-cores-say", "Share of kernel time in kernels whose names show that they use matrix units."),
    ),
)


_CALLBACKS = Text(
    "idle-callbacks",
    "GPU {device} does nothing for {time:ns} in which a graph waits for a callback on the CPU, for the longest time "
    "for {name}.",
    "name is that of a node of a graph and its function: HostNode: tell",
)


class _Row(NamedTuple):
    """A cause of idle time of a device."""

    device: DeviceIdle
    cause: Cause
    ns_per_step: float | None
    """Time of a typical step; null for devices other than the busiest one."""


def build_utilization(report: Report, top: int) -> Iterator[Section]:
    """Build a table of the use of each GPU, one row per device."""
    del top
    metrics, recording = report.result("gpu", GpuMetrics), report.result("recording", Recording)
    if metrics is None or not metrics.devices:
        return
    is_whole = recording is not None and recording.steps_from == "whole-trace"  # then all steps are the only one
    shown = optional(known, *_TYPICAL_COLUMNS, *(() if is_whole else _ALL_COLUMNS))
    yield Section(
        "gpu",
        _GPU_TITLE,
        tables=(table("gpu", shown, metrics.devices),),
        topic=Topic.GPU,
        terms=_GPU_TERMS,
        is_essential=True,
    )


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of causes by device, longest gaps, and HTA's causes by stream."""
    idle = report.result("idle", Idle)
    if idle is None or not idle.devices:
        return
    causes = table("idle_causes", _CAUSE_COLUMNS, _causes(idle, report.result("recording", Recording)), top)
    held = [device for device in idle.devices if device.callbacks_ns and device.callback]
    messages = [_CALLBACKS(device=one.device, time=one.callbacks_ns, name=one.callback) for one in held]
    yield detail("idle", TITLE, Topic.GPU, (causes,), messages=messages, terms=_TERMS)
    for id_, key, title, shown, rows in (
        ("idle-longest", "idle_longest_gaps", _LONGEST, _GAP_COLUMNS, idle.longest_gaps),
        ("idle-streams", "idle_streams", _STREAMS, _STREAM_COLUMNS, idle.streams),
    ):
        if rows:
            yield detail(id_, title, Topic.GPU, (table(key, shown, rows, top),))


def _causes(idle: Idle, recording: Recording | None) -> list[_Row]:
    """Causes that occur, per device, largest first; by the time of a typical step where that is known."""
    typical = recording.typical if recording is not None and recording.has_more else None
    busiest = typical.resources.device if typical else None
    times = {(busiest, cause.cause): cause.ns_per_step for cause in typical.idle} if typical else {}
    rows = [
        _Row(device, cause, times.get((device.device, cause.cause)))
        for device in idle.devices
        for cause in sorted(device.causes, key=lambda cause: -cause.time_ns)
        if cause.time_ns
    ]
    return sorted(rows, key=lambda row: (row.device.device, -(row.ns_per_step or 0)))
