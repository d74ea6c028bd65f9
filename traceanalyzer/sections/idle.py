"""When and why is a GPU idle?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("idle-title", "GPU idle time by cause")
_STREAMS = Text("idle-streams-title", "Idle time by stream")
_LONGEST = Text("idle-longest-title", "Longest gaps")
CAUSE_LABELS = {
    "dataloader": Text("idle-dataloader", "Waiting for the DataLoader"),
    "communication": Text("idle-communication", "Waiting in a collective"),
    "compilation": Text("idle-compilation", "Compiling or loading code"),
    "allocation": Text("idle-allocation", "Allocating memory"),
    "profiler_overhead": Text("idle-profiler-overhead", "Profiler overhead"),
    "synchronization": Text("idle-synchronization", "Synchronization drained the queue"),
    "launch_bound": Text("idle-launch-bound", "Launch-bound: host in operators"),
    "host_code": Text("idle-host-code", "Host code outside operators"),
    "unrecorded_work": Text("idle-unrecorded-work", "Work from before the recording"),
    "pending": Text("idle-pending", "Launched, but waiting for something else"),
    "device_gap": Text("idle-device-gap", "Pauses between queued kernels"),
    "unknown": Text("idle-unknown", "Unknown"),
}
_GPU = SectionColumn(Text("idle-device", "GPU"), "")
_CAUSE = SectionColumn(Text("idle-cause", "Cause"), "")
_CAUSES = (
    _GPU,
    _CAUSE,
    SectionColumn(Text("idle-time", "Time"), "ns"),
    SectionColumn(Text("idle-share", "Share of idle"), "share", has_bar=True),
    SectionColumn(Text("idle-window-share", "Share of window"), "share"),
    SectionColumn(Text("idle-gaps", "Gaps"), "count"),
)
_STREAM_COLUMNS = (
    _GPU,
    SectionColumn(Text("idle-stream", "Stream"), ""),
    SectionColumn(Text("idle-stream-busy", "Busy"), "ns"),
    SectionColumn(Text("idle-stream-idle", "Idle"), "ns"),
    SectionColumn(Text("idle-host-wait", "Host wait", "HTA's term: the launch came late"), "ns"),
    SectionColumn(Text("idle-kernel-wait", "Kernel wait", "HTA's term: a short pause between kernels"), "ns"),
    SectionColumn(Text("idle-other", "Other"), "ns"),
    SectionColumn(Text("idle-edge", "Before first, after last"), "ns"),
)
_GAP_COLUMNS = (
    _GPU,
    SectionColumn(Text("idle-gap-start", "Start"), "ns"),
    SectionColumn(Text("idle-gap-duration", "Duration"), "ns"),
    _CAUSE,
    SectionColumn(Text("idle-gap-host", "Host was in"), "", is_name=True),
)
_LINE = SectionColumn(Text("idle-gap-line", "Python line"), "", is_name=True)
_OWNER = SectionColumn(Text("idle-gap-owner", "Owner", "part of a program that takes time"), "", is_name=True)
_NEXT = SectionColumn(Text("idle-gap-next", "Ended by"), "", is_name=True)
_NOTHING_RECORDED = Text("idle-gap-nothing-recorded", "(nothing recorded)", "the host was in no operator and no call")
_NO_MORE = Text("idle-gap-no-more", "(no further activity)", "of the GPU")
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


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of causes by device, longest gaps, and HTA's causes by stream."""
    idle = report.result("idle", Idle)
    if idle is None or not idle.devices:
        return
    yield Section("idle", TITLE, tables=(_causes(idle, top),), topic=Topic.GPU, terms=_TERMS, is_detail=True)
    if idle.longest_gaps:
        yield Section("idle-longest", _LONGEST, tables=(_longest(idle, top),), topic=Topic.GPU, is_detail=True)
    if idle.streams:
        yield Section("idle-streams", _STREAMS, tables=(_streams(idle, top),), topic=Topic.GPU, is_detail=True)


def _causes(idle: Idle, top: int) -> SectionTable:
    """Causes that occur, per device, largest first."""
    rows = [
        (
            device.device,
            word(CAUSE_LABELS, cause.cause),
            cause.time_ns,
            cause.share,
            cause.time_ns / device.window_ns if device.window_ns else None,
            cause.gaps,
        )
        for device in idle.devices
        for cause in sorted(device.causes, key=lambda cause: -cause.time_ns)
        if cause.time_ns
    ]
    return SectionTable("idle_causes", _CAUSES, tuple(rows[:top]), len(rows))


def _longest(idle: Idle, top: int) -> SectionTable:
    has_lines = any(gap.python_line is not None for gap in idle.longest_gaps)
    has_owners = any(gap.owner is not None for gap in idle.longest_gaps)
    rows = tuple(
        (
            gap.device,
            gap.start_ns,
            gap.duration_ns,
            word(CAUSE_LABELS, gap.cause),
            gap.call or gap.operator or gap.annotation or _NOTHING_RECORDED,
            *([gap.owner] if has_owners else []),
            *([gap.python_line] if has_lines else []),
            gap.next_event or _NO_MORE,
        )
        for gap in idle.longest_gaps[:top]
    )
    columns = (*_GAP_COLUMNS, *([_OWNER] if has_owners else []), *([_LINE] if has_lines else []), _NEXT)
    return SectionTable("idle_longest_gaps", columns, rows, len(idle.longest_gaps))


def _streams(idle: Idle, top: int) -> SectionTable:
    rows = tuple(
        (
            stream.device,
            stream.stream,
            stream.busy_ns,
            stream.idle_ns,
            stream.host_wait.time_ns,
            stream.kernel_wait.time_ns,
            stream.other.time_ns,
            stream.edge_ns,
        )
        for stream in idle.streams[:top]
    )
    return SectionTable("idle_streams", _STREAM_COLUMNS, rows, len(idle.streams))
