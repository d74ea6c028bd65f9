"""Prepares the timeline of a typical step as lanes of slices: data for the script, and a static picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.steps import Timeline
from traceanalyzer.formats.html.detail import PageDetail
from traceanalyzer.formats.html.lanes import LONGEST, PATH_LABELS, TONES, DrawnLane, drawn, path_lane
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean, shorten
from traceanalyzer.formats.shared_unit import unit_names
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Term

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
