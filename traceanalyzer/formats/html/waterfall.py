"""The timeline of a typical step as coloured lanes of slices: data for the script, and a static picture."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.steps import Lane, Slice, Timeline
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.language import Language, unit_names
from traceanalyzer.knowledge import kernel_names, marks
from traceanalyzer.knowledge.accelerators import TaskKind, kind_by_name
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten
from traceanalyzer.report.section import Term
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


@dataclass(frozen=True)
class Outline:
    """All bars of one colour in a lane."""

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
    """All content of the page about the timeline."""

    step: str
    duration_ns: int
    data: dict[str, Any]
    strips: tuple[Strip, ...]
    tones: tuple[tuple[str, str], ...]
    """Colours that occur, with their names."""
    left_out: int
    """Number of short slices that are not drawn."""
    hidden_lanes: int


def build(report: Report, language: Language, detail: PageDetail) -> Waterfall | None:
    """Prepare the typical step whose duration is nearest to the mean; None if there is nothing to draw."""
    timeline = report.result("timeline", Timeline)
    if timeline is None or not timeline.duration_ns:
        return None
    lanes, left_out = _longest([drawn(timeline, lane, language) for lane in timeline.lanes], detail.slices)
    names = [shorten(clean(name), min(LONGEST, detail.name)) for name in timeline.names]
    path = path_lane(report, timeline, names, language)
    lanes = [path, *lanes] if path else lanes
    if not lanes:
        return None
    used = {bar.tone for lane in lanes for bar in lane.bars}
    order = [tone for tone in TONES if tone in used]
    labels = {**TONES, **PATH_LABELS} if path else TONES
    position = {tone: number for number, tone in enumerate(order)}
    return Waterfall(
        step=clean(timeline.step),
        duration_ns=timeline.duration_ns,
        data=_data(timeline, lanes, position, language, names),
        strips=tuple(_strip(lane, timeline) for lane in lanes),
        tones=tuple((tone, language.text(labels[tone])) for tone in order),
        left_out=left_out,
        hidden_lanes=timeline.hidden_lanes,
    )


def _longest(lanes: list[DrawnLane], most: int) -> tuple[list[DrawnLane], int]:
    """The longest bars of all lanes, at most `most`."""
    durations = sorted((bar.duration_ns for lane in lanes for bar in lane.bars), reverse=True)
    if len(durations) <= most:
        return [lane for lane in lanes if lane.bars], 0
    limit = durations[most]
    kept = [DrawnLane(lane.label, tuple(bar for bar in lane.bars if bar.duration_ns > limit)) for lane in lanes]
    return [lane for lane in kept if lane.bars], len(durations) - sum(len(lane.bars) for lane in kept)


def _data(
    timeline: Timeline, lanes: list[DrawnLane], position: dict[str, int], language: Language, names: list[str]
) -> dict[str, Any]:
    """Bars of each lane as columns; starts are stored as differences, which are short."""
    return {
        "duration": timeline.duration_ns,
        "resolution": timeline.resolution_ns,
        "names": names,
        "tones": list(position),
        "units": unit_names(language, "ns"),
        "lanes": [
            {
                "label": lane.label,
                "rows": 1 + max(bar.depth for bar in lane.bars),
                "start": _differences([bar.start_ns for bar in lane.bars]),
                "length": [bar.duration_ns for bar in lane.bars],
                "row": [bar.depth for bar in lane.bars],
                "name": [-1 if bar.name is None else bar.name for bar in lane.bars],
                "count": [bar.count for bar in lane.bars],
                "tone": [position[bar.tone] for bar in lane.bars],
            }
            for lane in lanes
        ],
    }


def _differences(values: list[int]) -> list[int]:
    return [value - before for value, before in zip(values, [0, *values], strict=False)]


def _strip(lane: DrawnLane, timeline: Timeline) -> Strip:
    """Snap the bars of a lane to the columns of the picture; adjacent bars are merged."""
    spans: dict[tuple[str, int], list[list[int]]] = {}
    for bar in lane.bars:
        begin = bar.start_ns * GRID // timeline.duration_ns
        end = max(begin + 1, (bar.start_ns + bar.duration_ns) * GRID // timeline.duration_ns)
        row = spans.setdefault((bar.tone, bar.depth), [])
        if row and begin <= row[-1][1] and bar.name is None:
            row[-1][1] = max(row[-1][1], end)
        else:
            row.append([begin, end])
    paths: dict[str, list[str]] = {}
    for (tone, depth), row in sorted(spans.items()):
        top = depth * ROW
        paths.setdefault(tone, []).extend(f"M{a} {top}H{b}V{top + ROW - 2}H{a}Z" for a, b in row)
    outlines = tuple(Outline(tone, "".join(parts)) for tone, parts in paths.items())
    return Strip(lane.label, ROW * (1 + max(bar.depth for bar in lane.bars)), outlines)
