"""The lanes of a timeline: threads, streams and the critical path, with the colours of their rectangles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceanalyzer.analyzers.steps import Lane, Slice, Timeline
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean, shorten
from traceanalyzer.knowledge import kernel_names, marks
from traceanalyzer.knowledge.accelerators import TaskKind, kind_by_name
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.sections import critical_path
from traceanalyzer.simulation.critical_path import CriticalPath

_KINDS = {
    "marks": Text("waterfall-marks", "Marks of thread {label}", "ranges that people set; label is 123/456"),
    "host": Text("waterfall-host", "Thread {label}", "label is a process and a thread, 123/456"),
    "launches": Text("waterfall-launches", "Runtime calls of thread {label}"),
    "device": Text("waterfall-device", "GPU {device}, stream {stream}"),
    "accelerator": Text(
        "waterfall-accelerator", "{device}, stream {stream}", "device is a kind of device and a number, such as MTIA 17"
    ),
}
TONES = {
    "kernel": Text("waterfall-kernel", "Kernel"),
    "memcpy": Text("waterfall-memcpy", "Copy"),
    "memset": Text("waterfall-memset", "Fill"),
    "communication": Text("waterfall-communication", "Communication"),
    "runtime": Text("waterfall-runtime", "Runtime call"),
    "dataloader": Text("waterfall-dataloader", "DataLoader"),
    "cpu_exec": Text("waterfall-operator", "Operator"),
    "other": Text("waterfall-annotation", "Annotation, Python"),
    "waiting": Text("waterfall-waiting", "Waiting of a queue"),
}
"""Meanings of the colours of slices, by their names."""

LONGEST = 300
"""Number of characters of a name that are shown."""
_PATH = Text("waterfall-path", "Critical path: what the step waits for", "title of a row of a picture")
_PATH_TONES = {
    "loader": "dataloader",
    "host": "cpu_exec",
    "launch": "runtime",
    "compute": "kernel",
    "copy": "memcpy",
    "communication": "communication",
    "device_gap": "waiting",
    "wake_up": "waiting",
    "asleep": "waiting",
}
PATH_LABELS = {
    "cpu_exec": Text("waterfall-operator-host", "Operator, host", "what a colour means; host is time of the CPU"),
    "runtime": Text("waterfall-runtime-launch", "Runtime call, launch", "what a colour means"),
    "waiting": Text("waterfall-waiting-pause", "Waiting, pause", "what a colour means"),
}
"""Other meanings of colours if the critical path is shown."""
_TASK_TONES = {
    TaskKind.WORK: "kernel",
    TaskKind.COMMUNICATION: "communication",
    TaskKind.TRANSFER: "memcpy",
    TaskKind.WAITING: "waiting",
    TaskKind.CONTROL: "waiting",
}
_COPY = re.compile(r"^(memcpy|copy(host|device|buffer))", re.IGNORECASE)
_FILL = re.compile(r"^(memset|fill(buffer)?\b)", re.IGNORECASE)
_OPERATOR = re.compile(r"^\w+::|^autograd::|Backward\d*$")
_COLLECTIVE = re.compile(r"^(nccl|gloo|c10d|mpi|ucc)::?|^record_param_comms$")


@dataclass(frozen=True)
class Bar:
    """One rectangle of a lane."""

    start_ns: int
    duration_ns: int
    depth: int
    name: int | None
    """Position of its name; None for several merged slices, and for a name that the report does not contain."""
    count: int
    tone: str


@dataclass(frozen=True)
class DrawnLane:
    """One lane with coloured rectangles."""

    label: str
    bars: tuple[Bar, ...]


def drawn(timeline: Timeline, lane: Lane, language: Language) -> DrawnLane:
    """A lane of the timeline with the colours of its slices."""
    bars = tuple(
        Bar(
            item.start_ns,
            item.duration_ns,
            item.depth,
            None if (name := _name(timeline, item)) is None else item.name,
            item.count,
            _tone(lane.kind, name),
        )
        for item in lane.slices
    )
    return DrawnLane(_label(lane, language), bars)


def path_lane(report: Report, timeline: Timeline, names: list[str], language: Language) -> DrawnLane | None:
    """The critical path as a lane, if it is of the step shown; appends the names of its bars to `names`."""
    found = report.result("critical_path", CriticalPath)
    if found is None or found.stretches_start_ns != timeline.start_ns:
        return None
    bars: list[Bar] = []
    known: dict[str, int] = {}
    for each in found.stretches:
        resource = language.text(critical_path.resource_label(each.resource))
        says_more = each.mostly is not None and each.resource != "loader"
        name = language.joined(resource, clean(each.mostly or "")) if says_more else resource
        place = known.setdefault(name, len(names))
        if place == len(names):
            names.append(shorten(name, LONGEST))
        bars.append(Bar(each.start_ns, each.duration_ns, 0, place, 1, _PATH_TONES.get(each.resource, "other")))
    return DrawnLane(language.text(_PATH), tuple(bars)) if bars else None


def _name(timeline: Timeline, item: Slice) -> str | None:
    """The name of a slice; None for several merged slices, and for a name that the report does not contain."""
    is_known = item.name is not None and 0 <= item.name < len(timeline.names)
    return timeline.names[item.name] if is_known and item.name is not None else None


def _tone(kind: str, name: str | None) -> str:
    """The colour of a slice, by its lane and its name; merged slices have the usual colour of the lane."""
    if kind == "launches":
        return "runtime"
    if kind == "device":
        return _device_tone(name or "")
    if kind == "accelerator":
        return _TASK_TONES[kind_by_name(name or "")]
    return _host_tone(name, is_mark=kind == "marks")


def _host_tone(name: str | None, *, is_mark: bool) -> str:
    if name is None:
        return "other" if is_mark else "cpu_exec"
    if not is_mark and _OPERATOR.search(name):
        return "communication" if _COLLECTIVE.match(name) else "cpu_exec"
    if marks.is_dataloader(name):
        return "dataloader"
    return "communication" if _COLLECTIVE.match(name) or marks.is_collective(name) else "other"


def _device_tone(name: str) -> str:
    if _COPY.match(name):
        return "memcpy"
    if _FILL.match(name):
        return "memset"
    return "communication" if kernel_names.is_communication(name) else "kernel"


def _label(lane: Lane, language: Language) -> str:
    if lane.kind in ("device", "accelerator"):
        device, _, stream = lane.label.partition("/")
        return clean(language.text(_KINDS[lane.kind], device=device, stream=stream))
    return clean(language.text(_KINDS[lane.kind], label=lane.label)) if lane.kind in _KINDS else clean(lane.label)
