"""The timeline as coloured lanes of slices: data for the script, and a static picture of the typical step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.steps import Lane, Slice, Timeline
from traceanalyzer.analyzers.steps.slices import RecordedSlices
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
from traceanalyzer.simulation.critical_path import CriticalPath, CriticalStretch

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
    "math": Text("waterfall-matmul", "Matrix multiplication, convolution, attention", "a kernel of these kinds"),
    "kernel": Text("waterfall-other-kernel", "Other kernel", "besides those of the line above"),
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
    "cpu_exec": Text("waterfall-operator-cpu", "Operator, CPU", "what a colour means"),
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
_NAMESPACES = re.compile(r"^void (?=\w)|\bat::native::|\(anonymous namespace\)::")
_COPY = re.compile(r"^(memcpy|copy(host|device|buffer))", re.IGNORECASE)
_FILL = re.compile(r"^(memset|fill(buffer)?\b)", re.IGNORECASE)
_CALL = re.compile(r"(?:cuda|hip)[A-Z]")
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
    path = report.result("critical_path", CriticalPath)
    if path is None or path.stretches_start_ns != timeline.start_ns:
        return None
    bars: list[Bar] = []
    position_of: dict[str, int] = {}
    for stretch in path.stretches:
        name = _stretch_name(stretch, language)
        position = position_of.setdefault(name, len(names))
        if position == len(names):
            names.append(shorten(name, LONGEST))
        bars.append(Bar(stretch.start_ns, stretch.duration_ns, 0, position, 1, _stretch_tone(stretch)))
    return DrawnLane(language.text(_PATH), tuple(bars)) if bars else None


def _stretch_name(stretch: CriticalStretch, language: Language) -> str:
    """The resource that the step waits for, and what the resource does then."""
    resource = language.text(critical_path.resource_label(stretch.resource))
    if stretch.mostly is None or stretch.resource == "loader":
        return resource
    return language.joined(resource, clean(stretch.mostly))


def _stretch_tone(stretch: CriticalStretch) -> str:
    if stretch.resource == "compute":
        return _device_tone(stretch.mostly or "")
    return _PATH_TONES.get(stretch.resource, "other")


def _name(timeline: Timeline, item: Slice) -> str | None:
    """The name of a slice; None for several merged slices, and for a name that the report does not contain."""
    is_known = item.name is not None and 0 <= item.name < len(timeline.names)
    return timeline.names[item.name] if is_known and item.name is not None else None


def tone_of(kind: str, name: str | None) -> str:
    """The colour of a slice, by its lane and its name; merged slices have the usual colour of the lane."""
    if kind == "launches":
        return "runtime"
    if kind == "owners":
        is_call = _CALL.match(name or "") is not None
        return "dataloader" if marks.is_dataloader(name or "") else "runtime" if is_call else "cpu_exec"
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
            "times outside of the steps and the whole trace can be chosen. Where there are more events than a page "
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
    slices = shown.slices
    path_names: list[str] = []
    path = path_lane(report, timeline, path_names, language)
    lanes = _longest([drawn(timeline, lane, language) for lane in timeline.lanes], detail.slices)
    labels = TONES
    if path:
        lanes = [path, *lanes]
        labels = {**TONES, **PATH_LABELS}
    slice_tones = _slice_tones(slices)
    tones = _drawn_tones(slices, slice_tones, lanes)
    times = list(_times(report, shown, language))
    if path:
        typical = next(time for time in times if time["start"] == timeline.start_ns)
        typical["path"] = _packed_path(path, len(slices.names), _positions(tones))
    data = {
        "names": _slice_names(slices, detail) + path_names,
        "tones": tones,
        "toneLabels": [language.unmarked.text(labels[tone]) for tone in tones],
        "toneOf": _packed_tones(slice_tones, _positions(tones)),
        "units": unit_names(language, "ns"),
        **_causes(slices, language),
        "findings": _findings(shown, cards),
        "times": times,
    }
    return Waterfall(
        step=clean(timeline.step),
        duration_ns=timeline.duration_ns,
        data=data,
        strips=tuple(_strip(lane, timeline) for lane in lanes),
        tones=tuple((tone, language.text(labels[tone])) for tone in tones),
    )


def _positions(tones: Sequence[str]) -> dict[str, int]:
    """The position of each colour in the list that the script gets."""
    return {tone: number for number, tone in enumerate(tones)}


def _packed_tones(slice_tones: Mapping[str, Sequence[str]], position: Mapping[str, int]) -> dict[str, Any]:
    """By the kind of a lane, the position of each name's colour, for the script."""
    return {kind: packed([position.get(tone, 0) for tone in tones]) for kind, tones in slice_tones.items()}


def _slice_tones(slices: RecordedSlices) -> dict[str, list[str]]:
    """By the kind of a lane, the colour that each name has in it; that of merged slices is last."""
    kinds = {lane.kind for time in slices.times for lane in time.lanes}
    names = (*slices.names, None)
    return {kind: [tone_of(kind, name) for name in names] for kind in sorted(kinds)}


def _drawn_tones(
    slices: RecordedSlices, slice_tones: Mapping[str, Sequence[str]], lanes: Iterable[DrawnLane]
) -> list[str]:
    """The colours that the script or the static picture uses, in the order of the legend."""
    drawn_tones = {bar.tone for lane in lanes for bar in lane.bars}
    for time in slices.times:
        for lane in time.lanes:
            drawn_tones |= {slice_tones[lane.kind][name] for name in set(lane.name)}
    return [tone for tone in TONES if tone in drawn_tones]


def _slice_names(slices: RecordedSlices, detail: PageDetail) -> list[str]:
    longest = min(LONGEST, detail.name)
    return [shorten(clean(bare_name(name)), longest) for name in slices.names]


def bare_name(name: str) -> str:
    """The name of a kernel without its return type and the namespaces of PyTorch."""
    return _NAMESPACES.sub("", name) or name


def _causes(slices: RecordedSlices, language: Language) -> dict[str, Any]:
    """Why the GPU is idle: the ids of the causes, and their labels."""
    unknown = CAUSE_LABELS["unknown"]
    labels = [language.text(CAUSE_LABELS.get(cause, unknown)) for cause in slices.causes]
    return {"causeIds": slices.causes, "causes": labels}


def _findings(shown: TimelineTimes, cards: Sequence[Card]) -> list[dict[str, Any]]:
    """The findings of the page, with the times that they mark."""
    return [
        {"id": anchor, "title": title_of(card), "saving": card.time or "", "spans": spans_of(finding)}
        for (anchor, finding), card in zip(shown.findings, cards, strict=False)
    ]


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
    # by colour and depth: first column, and column after the last, of each block
    blocks: dict[tuple[str, int], list[list[int]]] = {}
    for bar in lane.bars:
        begin = bar.start_ns * GRID // timeline.duration_ns
        end = max(begin + 1, (bar.start_ns + bar.duration_ns) * GRID // timeline.duration_ns)
        row = blocks.setdefault((bar.tone, bar.depth), [])
        if row and begin <= row[-1][1] and bar.name is None:
            row[-1][1] = max(row[-1][1], end)
        else:
            row.append([begin, end])
    height = ROW * (1 + max(bar.depth for bar in lane.bars))
    return PrintedLane(lane.label, height, tuple(_outlines(blocks)))


def _outlines(blocks: Mapping[tuple[str, int], Sequence[Sequence[int]]]) -> Iterator[Outline]:
    """One path for each colour, of the blocks of all depths."""
    paths: dict[str, str] = {}
    for (tone, depth), row in sorted(blocks.items()):
        top = depth * ROW
        bottom = top + ROW - 2
        boxes = "".join(f"M{begin} {top}H{end}V{bottom}H{begin}Z" for begin, end in row)
        paths[tone] = paths.get(tone, "") + boxes
    for tone, path in paths.items():
        yield Outline(tone, path)
