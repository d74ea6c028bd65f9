"""The typical step as one strip on the first screen: devices, phases, program, and why the GPU is idle.

It is a picture without a script, and every figure in it is also a text. It shows one recorded step; its figures are
those of the mean over the typical steps, as everywhere on the page. Where no step is like the mean, it says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from traceanalyzer.analyzers.steps.slices import RecordedSlices, SliceTime
from traceanalyzer.formats.html import strip_lanes
from traceanalyzer.formats.html.figures import FigureLanguage
from traceanalyzer.formats.html.strip_lanes import COLUMNS, StripText, TypicalLane, short
from traceanalyzer.formats.html.timeline_data import TimelineTimes, idle_findings
from traceanalyzer.formats.html.waterfall import PATH_LABELS, TONES
from traceanalyzer.formats.language import Language
from traceanalyzer.report import units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean
from traceanalyzer.sections import overview
from traceanalyzer.sections.idle import CAUSE_LABELS
from traceanalyzer.structure.recording import Recording, TypicalStep

_SAYS = Text("strip-says-3", "{step}.", note="step is such as: Step 8")
_SAYS_ONE_OF = Text("strip-says-one-of", "{step}, one of {count:count} typical steps.", note="step is such as: Step 8")
_SAYS_BUSY = Text("strip-says-busy-2", "{step}. The GPU is never idle.", "step is such as: Step 8")
_SAYS_HOST = Text("strip-says-host", "{step}. {parts}.", note="parts is a list of parts of the program")
_SAYS_BESIDE = Text(
    "strip-says-beside", "{says} {why}", "two sentences; why is such as: Steps differ: 3 of 12 take ..."
)
_PART = Text("strip-part", "{name}", "name is that of a part of the program")
_STEP = Text("strip-step-3", "Step {name}")
_WHOLE = Text("strip-whole", "The whole trace")
_IDLE = Text("strip-idle", "{time:ns}: {cause}", "cause is why the GPU is idle")
_IDLE_MEAN = Text("strip-idle-mean", "The GPU is idle per step, on average:", "followed by times with their causes")
_IDLE_ONE = Text("strip-idle-one", "The GPU is idle:", "followed by times with their causes")

_LABELS = {
    **TONES,
    "cpu_exec": PATH_LABELS["cpu_exec"],
    strip_lanes.WAITS: Text("strip-cpu-waits", "CPU waits for the GPU", "what a colour means"),
}
"""Meanings of colours: lanes of the CPU show functions, too."""
_MOST_PARTS = 4
_ROUND = (1, 2, 5)
"""First digits of the distance of times of the scale."""
_MOST_TICKS = 5
_LAST = 97
"""Where, in percent of the strip, the last time of the scale has room."""
_LEAST = 0.01
"""Least share of the step of a cause or part that is named."""


@dataclass(frozen=True)
class IdleArea:
    """Idle time of a cause."""

    cause: str
    """Id of the cause."""
    name: str
    label: str
    """Time of the mean step, and the cause."""
    ns: float
    """Time in the mean step; in reports of older versions in the step that is shown."""
    drawn_ns: int
    """Time in the step that is shown."""
    path: str
    finding: str | None
    """Anchor of the finding that is about most of it."""
    is_named: bool
    """Whether it is long enough for the legend."""


@dataclass(frozen=True)
class Strip:
    """The picture and its sentence."""

    says: str
    lanes: tuple[TypicalLane, ...]
    idle_title: str
    """Words before the causes of idle time."""
    idle: tuple[IdleArea, ...]
    tones: tuple[tuple[str, str], ...]
    ticks: tuple[StripText, ...]
    address: str
    """The part of an address after # that shows the step in the timeline."""


def build(report: Report, shown: TimelineTimes | None, language: FigureLanguage) -> Strip | None:
    """The strip of a typical step; None for reports of older versions, and where nothing in it has a name."""
    if shown is None or not shown.slices.causes:
        return None
    one, slices = shown.slices.times[0], shown.slices
    recording = report.result("recording", Recording)
    mean = _mean(recording, slices)
    idle = _idle(shown, one, mean, language)
    lanes = strip_lanes.lanes(slices, one, language)
    if not any(area.is_named and area.path for area in idle) and not any(lane.texts for lane in lanes):
        return None
    marked = len(slices.times) > 1 or (report.trace is not None and report.trace.steps_from == "ProfilerStep")
    step = language.text(_STEP, name=clean(one.name or "")) if marked else language.text(_WHOLE)
    says, why = _sentence(slices, one, mean, step, language), overview.unlike_mean(report, one.duration_ns)
    return Strip(
        says if why is None else language.text(_SAYS_BESIDE, says=says, why=why),
        tuple(lanes),
        language.text(_IDLE_MEAN if mean is not None and mean.steps > 1 else _IDLE_ONE),
        tuple(idle),
        _legend(lanes, language),
        tuple(_ticks(one.duration_ns, language)),
        shown.address(0, 0, one.duration_ns),
    )


def _legend(lanes: Iterable[TypicalLane], language: Language) -> tuple[tuple[str, str], ...]:
    """The colours of the lanes with their meanings."""
    used = {area.tone for lane in lanes for area in lane.areas}
    return tuple((tone, language.text(_LABELS[tone])) for tone in _LABELS if tone in used)


def _mean(recording: Recording | None, slices: RecordedSlices) -> TypicalStep | None:
    """The mean step, if its idle times are of the device that is shown."""
    typical = recording.typical if recording else None
    return typical if typical and typical.idle and typical.resources.device == slices.device else None


def _ticks(duration_ns: int, language: Language) -> Iterator[StripText]:
    """Round times: a scale says nothing of the length of the step, which is another one than that of the mean."""
    distances = (digit * 10**power for power in range(len(str(duration_ns))) for digit in _ROUND)
    distance = next((each for each in distances if duration_ns <= _MOST_TICKS * each), duration_ns)
    yield StripText("0", "0", "start")
    for at in range(distance, duration_ns * _LAST // 100 + 1, distance):
        yield StripText(strip_lanes.percent(COLUMNS * at / duration_ns), language.quantity(at, "ns"), "middle")


def _sentence(slices: RecordedSlices, one: SliceTime, mean: TypicalStep | None, step: str, language: Language) -> str:
    """Which step is shown; how long a GPU works is said elsewhere. Without a device, what the program does."""
    if slices.device is None:
        return _of_program(slices, one, step, language)
    idle: float = sum(one.idle_duration) + one.idle_omitted_ns
    if mean is not None:
        idle = units.total(cause.ns_per_step for cause in mean.idle)
    if not idle:
        return language.text(_SAYS_BUSY, step=step)
    if mean is None or mean.steps == 1:
        return language.text(_SAYS, step=step)
    return language.text(_SAYS_ONE_OF, step=step, count=mean.steps)


def _of_program(slices: RecordedSlices, one: SliceTime, step: str, language: Language) -> str:
    """The parts of the program that take most of the step, without times, which are those of one step of several."""
    times: Counter[int] = Counter()
    for lane in one.lanes:
        if lane.kind == "owners":
            for name, length in zip(lane.name, lane.duration, strict=True):
                times[name] += length
    parts = [
        language.text(_PART, name=short(slices.names[name]))
        for name, ns in times.most_common(_MOST_PARTS)
        if ns >= _LEAST * one.duration_ns
    ]
    return language.text(_SAYS_HOST, step=step, parts=language.list(parts)) if parts else step


def _idle(shown: TimelineTimes, one: SliceTime, mean: TypicalStep | None, language: Language) -> list[IdleArea]:
    """Idle time by cause, largest first: its time in the mean step, and where it is in the one that is shown."""
    by_cause: dict[str, list[tuple[int, int, int]]] = {}
    findings = idle_findings(shown, one)
    columns = zip(accumulate(one.idle_start), one.idle_duration, one.idle_cause, findings, strict=True)
    for start, length, cause, finding in columns:
        by_cause.setdefault(shown.slices.causes[cause], []).append((start, length, finding))
    times: Mapping[str, float] = {id_: sum(length for _, length, _ in rows) for id_, rows in by_cause.items()}
    whole: float = one.duration_ns
    if mean is not None:
        times = {**dict.fromkeys(by_cause, 0.0), **{each.cause: each.ns_per_step for each in mean.idle}}
        whole = mean.parts.duration_ns
    areas = [
        _area(shown, one, id_, by_cause.get(id_, []), (ns, whole), language)
        for id_, ns in times.items()
        if ns or id_ in by_cause
    ]
    return sorted(areas, key=lambda area: -area.ns)


def _area(
    shown: TimelineTimes,
    one: SliceTime,
    cause: str,
    rows: list[tuple[int, int, int]],
    time: tuple[float, float],
    language: Language,
) -> IdleArea:
    """The idle times of a cause, given by start, length and finding; those less than a column apart are one area."""
    spans = _joined_spans(rows, one.duration_ns)
    path = "".join(f"M{begin:.1f} 0H{max(end, begin + 0.4):.1f}V1H{begin:.1f}Z" for begin, end in spans)
    label = language.text(CAUSE_LABELS.get(cause, CAUSE_LABELS["unknown"]))
    drawn_ns = sum(length for _, length, _ in rows)
    ns, whole = time
    text = language.text(_IDLE, time=ns, cause=label)
    finding = _anchor(shown, rows, drawn_ns) if rows else None
    return IdleArea(cause, label, text, ns, drawn_ns, path, finding, ns >= _LEAST * whole)


def _joined_spans(rows: list[tuple[int, int, int]], duration: int) -> list[list[float]]:
    """Begin and end of idle times in columns, those less than a column apart joined."""
    spans: list[list[float]] = []
    for start, length, _ in rows:
        begin = start * COLUMNS / duration
        end = (start + length) * COLUMNS / duration
        if spans and begin - spans[-1][1] < 1:
            spans[-1][1] = end
        else:
            spans.append([begin, end])
    return spans


def _anchor(shown: TimelineTimes, rows: Iterable[tuple[int, int, int]], idle_ns: int) -> str | None:
    """The anchor of the finding that is about at least half of the idle time of a cause."""
    claimed: Counter[int] = Counter()
    for _, length, finding in rows:
        claimed[finding] += length
    main, ns = claimed.most_common(1)[0]
    return shown.findings[main][0] if main >= 0 and 2 * ns >= idle_ns else None
