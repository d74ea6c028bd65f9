"""Prepares the typical step as lanes of slices: numbers for the script, outlines for pages without script."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.timeline import Lane, Slice, Timeline
from traceanalyzer.knowledge import kernel_names, marks
from traceanalyzer.knowledge.accelerators import TaskKind, kind_by_name
from traceanalyzer.renderers.html.detail import PageDetail
from traceanalyzer.renderers.language import Language
from traceanalyzer.renderers.names import clean, shorten
from traceanalyzer.renderers.shared_unit import unit_names
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Term

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
"""Meanings of the colours, as far as names show."""

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

TERMS = (
    Term(
        Text("define-timeline", "Timeline"),
        Text(
            "define-timeline-say",
            "One real step: the one whose duration is closest to that of the typical step. Slices shorter than a "
            "thousandth of it are drawn together, with their number.",
        ),
    ),
)

GRID = 2000
"""Number of columns of the static picture."""

ROW = 14
"""Height of a bar in pixels."""

_NAME = 300


@dataclass(frozen=True)
class Outline:
    """All bars of one tone in a lane."""

    tone: str
    path: str


@dataclass(frozen=True)
class Strip:
    """One lane of the static picture."""

    label: str
    height: int
    outlines: tuple[Outline, ...]


@dataclass(frozen=True)
class Waterfall:
    """Everything that the page shows of the timeline."""

    step: str
    duration_ns: int
    data: dict[str, Any]
    strips: tuple[Strip, ...]
    tones: tuple[tuple[str, str], ...]
    """Tones that occur, with their names."""
    left_out: int
    """Number of short slices that are not drawn."""
    hidden_lanes: int


def build(report: Report, language: Language, detail: PageDetail) -> Waterfall | None:
    """The step with the median duration; None where nothing is to be drawn."""
    timeline = report.result("timeline", Timeline)
    if timeline is None or not timeline.duration_ns:
        return None
    lanes, left_out = _longest(timeline.lanes, detail.slices)
    if not lanes:
        return None
    used = {_tone(lane.kind, _name(timeline, item)) for lane in lanes for item in lane.slices}
    order = [tone for tone in TONES if tone in used]
    position = {tone: number for number, tone in enumerate(order)}
    return Waterfall(
        step=clean(timeline.step),
        duration_ns=timeline.duration_ns,
        data=_data(timeline, lanes, position, language, min(_NAME, detail.name)),
        strips=tuple(_strip(lane, timeline, language) for lane in lanes),
        tones=tuple((tone, language.text(TONES[tone])) for tone in order),
        left_out=left_out,
        hidden_lanes=timeline.hidden_lanes,
    )


def _longest(lanes: tuple[Lane, ...], most: int) -> tuple[list[Lane], int]:
    """The longest slices of all lanes, at most this many."""
    durations = sorted((item.duration_ns for lane in lanes for item in lane.slices), reverse=True)
    if len(durations) <= most:
        return [lane for lane in lanes if lane.slices], 0
    limit = durations[most]
    kept = [Lane(lane.kind, lane.label, tuple(s for s in lane.slices if s.duration_ns > limit)) for lane in lanes]
    return [lane for lane in kept if lane.slices], len(durations) - sum(len(lane.slices) for lane in kept)


def _name(timeline: Timeline, item: Slice) -> str | None:
    """None for several at once, and for a name that the report does not hold."""
    is_known = item.name is not None and 0 <= item.name < len(timeline.names)
    return timeline.names[item.name] if is_known and item.name is not None else None


def _tone(kind: str, name: str | None) -> str:
    """What a slice is, by its lane and its name; several at once are what most of the lane is."""
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


def _data(
    timeline: Timeline, lanes: list[Lane], position: dict[str, int], language: Language, width: int
) -> dict[str, Any]:
    """Slices of each lane as columns; starts are differences, so that most of them are short."""
    return {
        "duration": timeline.duration_ns,
        "resolution": timeline.resolution_ns,
        "names": [shorten(clean(name), width) for name in timeline.names],
        "tones": list(position),
        "units": unit_names(language, "ns"),
        "lanes": [
            {
                "label": _label(lane, language),
                "rows": 1 + max(item.depth for item in lane.slices),
                "start": _differences([item.start_ns for item in lane.slices]),
                "length": [item.duration_ns for item in lane.slices],
                "row": [item.depth for item in lane.slices],
                "name": [-1 if _name(timeline, item) is None else item.name for item in lane.slices],
                "count": [item.count for item in lane.slices],
                "tone": [position[_tone(lane.kind, _name(timeline, item))] for item in lane.slices],
            }
            for lane in lanes
        ],
    }


def _differences(values: list[int]) -> list[int]:
    return [value - before for value, before in zip(values, [0, *values], strict=False)]


def _strip(lane: Lane, timeline: Timeline, language: Language) -> Strip:
    """Snap the bars of a lane to the columns of the picture; neighbours that touch become one."""
    spans: dict[tuple[str, int], list[list[int]]] = {}
    for item in lane.slices:
        begin = item.start_ns * GRID // timeline.duration_ns
        end = max(begin + 1, (item.start_ns + item.duration_ns) * GRID // timeline.duration_ns)
        row = spans.setdefault((_tone(lane.kind, _name(timeline, item)), item.depth), [])
        if row and begin <= row[-1][1] and item.name is None:
            row[-1][1] = max(row[-1][1], end)
        else:
            row.append([begin, end])
    paths: dict[str, list[str]] = {}
    for (tone, depth), row in sorted(spans.items()):
        top = depth * ROW
        paths.setdefault(tone, []).extend(f"M{a} {top}H{b}V{top + ROW - 2}H{a}Z" for a, b in row)
    outlines = tuple(Outline(tone, "".join(parts)) for tone, parts in paths.items())
    return Strip(_label(lane, language), ROW * (1 + max(item.depth for item in lane.slices)), outlines)
