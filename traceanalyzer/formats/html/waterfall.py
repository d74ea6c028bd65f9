"""The timeline as coloured lanes of slices: data for the script, and a static picture of the typical step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.steps import Lane, Slice, Timeline
from traceanalyzer.formats.cards import Card
from traceanalyzer.formats.html import timeline_data
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.html.figures import cleaned
from traceanalyzer.formats.html.timeline_data import TimelineTimes, packed, spans_of
from traceanalyzer.formats.language import Language, unit_names
from traceanalyzer.knowledge import kernel_names, marks
from traceanalyzer.knowledge.accelerators import TaskKind, kind_by_name
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten
from traceanalyzer.report.section import Term
from traceanalyzer.sections import critical_path
from traceanalyzer.sections.idle import CAUSE_LABELS
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
    "math": Text("waterfall-math", "Matrix product, convolution, attention", "a kernel of these kinds"),
    "kernel": Text("waterfall-other-kernel", "Other kernel", "besides matrix products, convolutions and attention"),
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
_MATH = (KernelClass.GEMM, KernelClass.MOE, KernelClass.CONVOLUTION, KernelClass.ATTENTION, KernelClass.RECURRENT)
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
            tone_of(lane.kind, name),
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
        tone = (
            _device_tone(each.mostly or "") if each.resource == "compute" else _PATH_TONES.get(each.resource, "other")
        )
        says_more = each.mostly is not None and each.resource != "loader"
        name = language.joined(resource, clean(each.mostly or "")) if says_more else resource
        place = known.setdefault(name, len(names))
        if place == len(names):
            names.append(shorten(name, LONGEST))
        bars.append(Bar(each.start_ns, each.duration_ns, 0, place, 1, tone))
    return DrawnLane(language.text(_PATH), tuple(bars)) if bars else None


def _name(timeline: Timeline, item: Slice) -> str | None:
    """The name of a slice; None for several merged slices, and for a name that the report does not contain."""
    is_known = item.name is not None and 0 <= item.name < len(timeline.names)
    return timeline.names[item.name] if is_known and item.name is not None else None


def tone_of(kind: str, name: str | None) -> str:
    """The colour of a slice, by its lane and its name; merged slices have the usual colour of the lane."""
    if kind == "launches":
        return "runtime"
    if kind == "owners":
        return "dataloader" if marks.is_dataloader(name or "") else "cpu_exec"
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
    if kernel_names.is_communication(name):
        return "communication"
    return "math" if kernel_class(name) in _MATH else "kernel"


def _label(lane: Lane, language: Language) -> str:
    if lane.kind in ("device", "accelerator"):
        device, _, stream = lane.label.partition("/")
        return cleaned(language.text(_KINDS[lane.kind], device=device, stream=stream))
    return cleaned(language.text(_KINDS[lane.kind], label=lane.label)) if lane.kind in _KINDS else clean(lane.label)


TERMS = (
    Term(
        Text("define-timeline", "Timeline"),
        Text(
            "define-timeline-say-2",
            "Every event of a real step, at the time at which it ran. The typical step that is shown is the closest to "
            "the mean, by its duration and its main cause of idle time. The slowest and the first step, the longest "
            "times outside of the steps and the whole recording can be chosen. Where there are more events than a page "
            "can hold, the shortest neighbours are blocks, which say how many they are.",
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
class PrintedLane:
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
    strips: tuple[PrintedLane, ...]
    tones: tuple[tuple[str, str], ...]
    """Colours that occur, with their names."""


def build(
    report: Report, language: Language, detail: PageDetail, shown: TimelineTimes | None, cards: Sequence[Card] = ()
) -> Waterfall | None:
    """Prepare the timeline; None if there is nothing to draw.

    Args:
        report: The report.
        language: The reader's language.
        detail: What fits the page.
        shown: The times that it shows.
        cards: The texts of the findings of these times, in their order.
    """
    timeline = report.result("timeline", Timeline)
    if timeline is None or not timeline.duration_ns or shown is None:
        return None
    path_names: list[str] = []
    path = path_lane(report, timeline, path_names, language)
    lanes = _longest([drawn(timeline, lane, language) for lane in timeline.lanes], detail.slices)
    lanes = [path, *lanes] if path else lanes
    slices = shown.slices
    kinds = {lane.kind for one in slices.times for lane in one.lanes}
    tones = {kind: [tone_of(kind, name) for name in (*slices.names, None)] for kind in sorted(kinds)}
    used = {tones[lane.kind][name] for one in slices.times for lane in one.lanes for name in set(lane.name)}
    used |= {bar.tone for lane in lanes for bar in lane.bars}
    order = [tone for tone in TONES if tone in used]
    labels = {**TONES, **PATH_LABELS} if path else TONES
    position = {tone: order.index(tone) for tone in used}
    known = [shorten(clean(name), min(LONGEST, detail.name)) for name in slices.names]
    times = list(_times(report, shown, language))
    if path:
        own = next(one for one in times if one["start"] == timeline.start_ns)
        own["path"] = _packed_path(path, len(known), position)
    data = {
        "names": known + path_names,
        "tones": order,
        "toneOf": {kind: packed([position.get(tone, 0) for tone in own]) for kind, own in tones.items()},
        "units": unit_names(language, "ns"),
        "causeIds": slices.causes,
        "causes": [language.text(CAUSE_LABELS.get(cause, CAUSE_LABELS["unknown"])) for cause in slices.causes],
        "findings": [
            {"id": id_, "title": title_of(card), "saving": card.time or "", "spans": spans_of(finding)}
            for (id_, finding), card in zip(shown.findings, cards, strict=False)
        ],
        "times": times,
    }
    return Waterfall(
        step=clean(timeline.step),
        duration_ns=timeline.duration_ns,
        data=data,
        strips=tuple(_strip(lane, timeline) for lane in lanes),
        tones=tuple((tone, language.text(labels[tone])) for tone in order),
    )


def _packed_path(path: DrawnLane, first: int, position: dict[str, int]) -> dict[str, str]:
    """The lane of the critical path for the script; its names begin at a position among all."""
    return {
        "label": path.label,
        "start": packed(_differences([bar.start_ns for bar in path.bars])),
        "length": packed([bar.duration_ns for bar in path.bars]),
        "name": packed([(bar.name or 0) + first for bar in path.bars]),
        "tone": packed([position[bar.tone] for bar in path.bars]),
    }


def title_of(card: Card) -> str:
    """The title of a finding where nothing can be code."""
    return clean(card.title).replace("`", "")


def _longest(lanes: list[DrawnLane], most: int) -> list[DrawnLane]:
    """The longest bars of all lanes, at most `most`."""
    durations = sorted((bar.duration_ns for lane in lanes for bar in lane.bars), reverse=True)
    limit = durations[most] if len(durations) > most else -1
    kept = (DrawnLane(lane.label, tuple(bar for bar in lane.bars if bar.duration_ns > limit)) for lane in lanes)
    return [lane for lane in kept if lane.bars]


def _times(report: Report, shown: TimelineTimes, language: Language) -> Iterator[dict[str, Any]]:
    """The columns of each time."""
    marked = report.trace is not None and report.trace.steps_from == "ProfilerStep"
    several = len(shown.slices.times) > 1 or marked
    for number, one in enumerate(shown.slices.times):
        devices = {lane.label.partition("/")[0] for lane in one.lanes if lane.kind == "device"}
        lanes = [
            {
                "label": timeline_data.lane_label(lane, several_devices=len(devices) > 1, language=language),
                "place": clean(lane.label),
                "kind": lane.kind,
                "rows": 1 + max(lane.depth),
                "start": packed(lane.start),
                "length": packed(lane.duration),
                "row": packed(lane.depth),
                "name": packed(lane.name),
                "count": packed(lane.count),
                "launch": packed(lane.launch),
            }
            for lane in one.lanes
            if lane.start
        ]
        yield {
            "key": shown.key(number),
            "label": timeline_data.time_label(one, is_marked=several, language=language),
            "start": one.start_ns,
            "duration": one.duration_ns,
            "notes": timeline_data.left_out(one, language),
            "idle": {
                "start": packed(one.idle_start),
                "length": packed(one.idle_duration),
                "cause": packed(one.idle_cause),
                "finding": packed(timeline_data.idle_findings(shown, one)),
            },
            "lanes": lanes,
        }


def _differences(values: list[int]) -> list[int]:
    return [value - before for value, before in zip(values, [0, *values], strict=False)]


def _strip(lane: DrawnLane, timeline: Timeline) -> PrintedLane:
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
    return PrintedLane(lane.label, ROW * (1 + max(bar.depth for bar in lane.bars)), outlines)
