"""The typical step as one strip on the first screen: phases, host, devices, and why they are idle, with its sentence.

It is a picture without a script, and every figure in it is also a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers.steps.slice_rows import SliceLane
from traceanalyzer.analyzers.steps.slices import RecordedSlices, SliceTime
from traceanalyzer.formats.html.timeline_data import GPU, WHOLE, TimelineTimes, idle_findings, lane_label
from traceanalyzer.formats.html.waterfall import TONES, tone_of
from traceanalyzer.formats.language import Language
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten
from traceanalyzer.sections.idle import CAUSE_LABELS

_SAYS = Text(
    "strip-says",
    "{step}: the GPU works for {busy:ns} and is idle for {idle:ns}. {causes}",
    note="step is 'Typical step 8, 158 ms'; causes is a list of causes with times, as a sentence",
)
_SAYS_BUSY = Text("strip-says-busy", "{step}: the GPU works for {busy:ns} and is never idle.")
_SAYS_HOST = Text("strip-says-host", "{step}. {parts}", note="parts is a list of parts of the program with times")
_STEP = Text("strip-step", "Typical step {name}, {duration:ns}")
_PHASES = Text("strip-phases", "Phases", "ranges that people mark in the program")
_HOST = Text("strip-host", "Host, {thread}", "thread is Main or Autograd")
_IDLE = Text("strip-idle", "{time:ns}: {cause}", "cause is why the GPU is idle")

COLUMNS = 1000
"""Columns of the picture."""
_CHARACTER, _BOLD = 1.05, 1.5
"""Width of a character in percent of the strip, on a screen on which texts are in it."""
_FUNCTION = re.compile(r"(?:.*/)?([^/]+\.py)\(\d+\): (.+)")
_MOST_CAUSES, _MOST_DEVICES, _MOST_PARTS = 5, 8, 4
_ASIDE = 20
"""How far, in percent of the strip, a cause may stand to the right of its idle time."""
_COVERS = 0.9
"""A mark that covers so much of the step is the step itself, not a phase."""
_LEAST = 0.005
"""Least share of the step of a cause or part that the sentence names."""


@dataclass(frozen=True)
class StripText:
    """Words in the picture; their place in percent of its width."""

    x: str
    text: str
    anchor: str = "start"


@dataclass(frozen=True)
class StripArea:
    """All areas of one colour in a lane."""

    tone: str
    path: str


@dataclass(frozen=True)
class IdleArea:
    """Idle time of a cause in the picture."""

    cause: str
    """Id of the cause."""
    label: str
    """Time and cause."""
    ns: int
    path: str
    longest: tuple[float, float]
    """First and last column of its longest area."""
    finding: str | None
    """Anchor of the finding that is about most of it."""


@dataclass(frozen=True)
class TypicalLane:
    """One lane of the picture."""

    label: str
    areas: tuple[StripArea, ...]
    texts: tuple[StripText, ...]
    idle: tuple[IdleArea, ...] = ()


@dataclass(frozen=True)
class Strip:
    """The picture and its sentence."""

    says: str
    lanes: tuple[TypicalLane, ...]
    reasons: tuple[StripText, ...]
    """The largest causes of idle time, below the device."""
    idle: tuple[IdleArea, ...]
    tones: tuple[tuple[str, str], ...]
    ticks: tuple[StripText, ...]
    address: str
    """The part of an address after # that shows the step in the timeline."""


def build(report: Report, shown: TimelineTimes | None, language: Language) -> Strip | None:
    """The strip of the typical step; None for reports of older versions, and where there is nothing to draw."""
    if shown is None or not shown.slices.causes:
        return None
    one = shown.slices.times[0]
    slices = shown.slices
    idle = _idle(shown, one, language)
    lanes = [*_phases(slices, one, language), *_hosts(slices, one, language), *_devices(slices, one, idle, language)]
    if not lanes:
        return None
    used = {area.tone for lane in lanes for area in lane.areas}
    marked = len(slices.times) > 1 or (report.trace is not None and report.trace.steps_from == "ProfilerStep")
    return Strip(
        _sentence(slices, one, idle, language, is_marked=marked),
        tuple(lanes),
        tuple(_reasons(one, idle)),
        tuple(idle),
        tuple((tone, language.text(label)) for tone, label in TONES.items() if tone in used),
        tuple(_ticks(one.duration_ns, language)),
        shown.address(0, 0, one.duration_ns),
    )


def _ticks(duration_ns: int, language: Language) -> Iterator[StripText]:
    """A time at each quarter."""
    for quarter, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        yield StripText(str(25 * quarter), language.quantity(duration_ns * quarter // 4, "ns"), anchor)


def _sentence(
    slices: RecordedSlices, one: SliceTime, idle: list[IdleArea], language: Language, *, is_marked: bool
) -> str:
    step = language.text(_STEP if is_marked else WHOLE, name=clean(one.name or ""), duration=one.duration_ns)
    least = _LEAST * one.duration_ns
    if slices.device is not None:
        total = sum(one.idle_duration) + one.idle_omitted_ns
        if not total:
            return language.text(_SAYS_BUSY, step=step, busy=one.duration_ns)
        causes = language.list(area.label for area in idle[:_MOST_CAUSES] if area.ns >= least or area is idle[0])
        said = language.sentence(causes)
        return language.text(_SAYS, step=step, busy=one.duration_ns - total, idle=total, causes=said)
    times: Counter[int] = Counter()
    for lane in one.lanes:
        if lane.kind == "owners":
            for name, length in zip(lane.name, lane.duration, strict=True):
                times[name] += length
    parts = [
        language.joined(_short(slices.names[name]), language.quantity(ns, "ns"))
        for name, ns in times.most_common(_MOST_PARTS)
        if ns >= least
    ]
    return language.text(_SAYS_HOST, step=step, parts=language.sentence(language.list(parts))) if parts else step


def _short(name: str) -> str:
    """A name without what frameworks add to it; of a function in a file the function first."""
    if marks.is_dataloader(name):
        return "DataLoader"
    function = _FUNCTION.match(name)
    short = f"{function[2]}, {function[1]}" if function else name.partition("#")[0] or name
    return shorten(clean(short), 60)


_Piece = tuple[int, int, str, str]
"""First column, column after the last, colour, text."""


def _pieces(time: SliceTime, lanes: Iterable[SliceLane], slices: RecordedSlices, depth: int | None) -> list[_Piece]:
    """What most of each column is, over some lanes; of a depth, or of all."""
    columns: list[_Shares] = [{} for _ in range(COLUMNS)]
    for lane in lanes:
        is_device = lane.kind in ("device", "accelerator")
        starts = accumulate(lane.start)
        for start, length, level, name in zip(starts, lane.duration, lane.depth, lane.name, strict=True):
            if depth is None or level == depth:
                text = slices.names[name] if name >= 0 else ""
                key = (tone_of(lane.kind, text), "" if is_device else text)
                _add(columns, time.duration_ns, start, length, key)
    return list(_runs(_most(shares, time.duration_ns) for shares in columns))


def _runs(main: Iterable[tuple[str, str] | None]) -> Iterator[_Piece]:
    """Neighbouring columns that show the same, as one piece; columns that show nothing make none."""
    begin = 0
    for key, run in groupby(main):
        end = begin + len(list(run))
        if key is not None:
            yield begin, end, *key
        begin = end


_Shares = dict[tuple[str, str], int]
"""How much of a column each colour with its text fills: of its width, in units of duration / columns."""


def _add(columns: list[_Shares], duration: int, start: int, length: int, key: tuple[str, str]) -> None:
    """Add a slice to the columns that it is in. Times are multiplied by the number of columns, so they stay whole."""
    begin = start * COLUMNS
    end = (start + length) * COLUMNS
    after_last = min(COLUMNS, -(-end // duration))
    for column in range(begin // duration, after_last):
        inside = min((column + 1) * duration, end) - max(column * duration, begin)
        if inside > 0:
            columns[column][key] = columns[column].get(key, 0) + inside


def _most(shares: _Shares, duration: int) -> tuple[str, str] | None:
    """What fills most of a column; None if less than a third of it is filled."""
    if 3 * sum(shares.values()) < duration:
        return None
    return max(shares, key=lambda key: shares[key])


def _lane(label: str, pieces: Sequence[_Piece], idle: Sequence[IdleArea] = ()) -> TypicalLane:
    """A lane; pieces with room for it have their name."""
    paths: dict[str, str] = {}
    for begin, end, tone, _ in pieces:
        edge = 0.6 if end - begin > 3 else 0.0
        paths[tone] = f"{paths.get(tone, '')}M{begin} 0H{end - edge:g}V1H{begin}Z"
    areas = tuple(StripArea(tone, path) for tone, path in paths.items())
    return TypicalLane(label, areas, tuple(_names(pieces)), tuple(idle))


def _names(pieces: Sequence[_Piece]) -> Iterator[StripText]:
    """The names of the pieces with room for at least some characters, cut where they are longer."""
    for begin, end, _, full in pieces:
        name = _short(full)
        room = (end - begin - 6) / 10 / _CHARACTER
        if name and room >= min(len(name), 6):
            yield StripText(_percent(begin + 3), name if len(name) <= room else f"{name[: int(room) - 1]}…")


def _percent(column: float) -> str:
    return f"{100 * column / COLUMNS:.2f}".rstrip("0").rstrip(".")


def _phases(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """The marks of the main thread, the outermost that are not the step itself."""
    marked = [lane for lane in one.lanes if lane.kind == "marks"]
    lane = next((lane for lane in marked if lane.role == "main"), marked[0] if marked else None)
    if lane is None:
        return
    rows = list(zip(lane.depth, lane.duration, strict=True))
    covered = {depth for depth, length in rows if length >= _COVERS * one.duration_ns}
    depth = next((depth for depth in sorted(set(lane.depth)) if depth not in covered), None)
    pieces = [] if depth is None else _pieces(one, [lane], slices, depth)
    if pieces:
        yield _lane(language.text(_PHASES), pieces)


def _hosts(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """Which part of the program each critical thread is in; without any, the outermost calls of the main thread."""
    lanes = [lane for lane in one.lanes if lane.kind == "owners"]
    lanes = lanes or [lane for lane in one.lanes if lane.kind == "host" and lane.role == "main"]
    for lane in lanes:
        thread = lane_label(replace(lane, kind="host"), several_devices=False, language=language)
        pieces = _pieces(one, [lane], slices, None if lane.kind == "owners" else 0)
        if pieces:
            yield _lane(language.text(_HOST, thread=thread), pieces)


def _devices(
    slices: RecordedSlices, one: SliceTime, idle: Sequence[IdleArea], language: Language
) -> Iterator[TypicalLane]:
    """What each device does, all streams together."""
    for kind in ("device", "accelerator"):
        streams: dict[str, list[SliceLane]] = {}  # by device
        for lane in one.lanes:
            if lane.kind == kind:
                streams.setdefault(lane.label.partition("/")[0], []).append(lane)
        for device, lanes in list(streams.items())[:_MOST_DEVICES]:
            is_known = kind == "device" and device == str(slices.device)
            name = clean(device)
            label = language.text(GPU, device=device) if kind == "device" else language.marked(name, name, "device")
            yield _lane(label, _pieces(one, lanes, slices, None), idle if is_known else ())


def _idle(shown: TimelineTimes, one: SliceTime, language: Language) -> list[IdleArea]:
    """Idle time by cause, largest first."""
    by_cause: dict[int, list[tuple[int, int, int]]] = {}
    findings = idle_findings(shown, one)
    columns = zip(accumulate(one.idle_start), one.idle_duration, one.idle_cause, findings, strict=True)
    for start, length, cause, finding in columns:
        by_cause.setdefault(cause, []).append((start, length, finding))
    areas = (_area(shown, one, cause, rows, language) for cause, rows in by_cause.items())
    return sorted(areas, key=lambda area: -area.ns)


def _area(
    shown: TimelineTimes, one: SliceTime, cause: int, rows: list[tuple[int, int, int]], language: Language
) -> IdleArea:
    """The idle times of a cause, given by start, length and finding; those less than a column apart are one area."""
    spans = _joined_spans(rows, one.duration_ns)
    first, last = max(spans, key=lambda span: span[1] - span[0])
    path = "".join(f"M{begin:.1f} 0H{max(end, begin + 0.4):.1f}V1H{begin:.1f}Z" for begin, end in spans)
    cause_id = shown.slices.causes[cause]
    label = language.text(CAUSE_LABELS.get(cause_id, CAUSE_LABELS["unknown"]))
    idle_ns = sum(length for _, length, _ in rows)
    text = language.text(_IDLE, time=idle_ns, cause=label)
    return IdleArea(cause_id, text, idle_ns, path, (first, last), _anchor(shown, rows, idle_ns))


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


def _reasons(one: SliceTime, idle: Sequence[IdleArea]) -> Iterator[StripText]:
    """The largest causes, each below its longest idle time, as far as they do not overlap."""
    taken: list[tuple[float, float]] = []
    for area in idle[:_MOST_CAUSES]:
        if area.ns < 2 * _LEAST * one.duration_ns:
            continue
        middle = fsum(area.longest) / 20
        width = len(area.label) * _BOLD
        low = wanted = min(max(0.0, middle - width / 2), 100 - width)
        for begin, end in sorted(taken):
            if begin < low + width + 2 and low < end + 2:  # move behind a label that is there
                low = end + 2
        if low < 0 or low + width > 100 or low > wanted + _ASIDE:
            continue
        taken.append((low, low + width))
        yield StripText(f"{low:.2f}", area.label)
