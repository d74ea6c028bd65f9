"""Tracks for Perfetto: what a report found, as events of the trace format, to be read beside the recorded ones.

The format is that of Chrome (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), which
Perfetto opens; the tracks belong to a process of their own. Events of one track never overlap in part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from msgspec import Raw

from traceanalyzer.analyzers.steps.slices import RecordedSlices, SliceTime
from traceanalyzer.formats.cards import card
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean
from traceanalyzer.sections import critical_path
from traceanalyzer.sections.idle import CAUSE_LABELS
from traceanalyzer.simulation.critical_path import CriticalPath

PROCESS = 1_999_999_999
"""Number of the process that has the tracks (own choice: no system gives such a number)."""
_FINDING = Text("perfetto-finding", "Finding: {title}")
_PHASES = Text("perfetto-phases", "Phases of thread {thread}")
_IDLE = Text("perfetto-idle", "GPU {device} is idle, by cause")
_PATH = Text("perfetto-path", "Critical path")
_FIRST = -1000
"""Place of the process among all; lower ones stand further up."""


@dataclass(frozen=True)
class PerfettoEvent:
    """One event of a track."""

    start_ns: int
    """Start in ns since the first event of the recording."""
    duration_ns: int
    name: str
    args: dict[str, Any]


def range_of(report: Report) -> tuple[int, int] | None:
    """Start and end, in ns since the first event, of the typical step that is shown; None if there is none."""
    slices = report.result("slices", RecordedSlices)
    if slices is None or not slices.times or not slices.times[0].duration_ns:
        return None
    return slices.times[0].start_ns, slices.times[0].start_ns + slices.times[0].duration_ns


def events(report: Report, origin_ns: int, language: Language) -> Iterator[dict[str, Any]]:
    """The events of all tracks within the typical step that is shown, with the names of the tracks.

    Args:
        report: The report of a trace.
        origin_ns: Time of its first event in the clock of the file.
        language: Language of the names.
    """
    bounds = range_of(report)
    if bounds is None:
        return
    language = language.of_report(report)
    about = {"pid": PROCESS, "tid": 0, "ts": 0, "ph": "M"}
    yield {**about, "name": "process_name", "args": {"name": "traceanalyzer"}}
    yield {**about, "name": "process_sort_index", "args": {"sort_index": _FIRST}}
    for number, (title, track) in enumerate(_tracks(report, language), 1):
        inside = [event for event in track if bounds[0] <= event.start_ns < bounds[1]]
        if not inside:
            continue
        yield {**about, "tid": number, "name": "thread_name", "args": {"name": title}}
        yield {**about, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}}
        for event in inside:
            yield {
                "ph": "X",
                "cat": "traceanalyzer",
                "name": event.name,
                "pid": PROCESS,
                "tid": number,
                "ts": _us(event.start_ns + origin_ns),
                "dur": _us(event.duration_ns),
                "args": event.args,
            }


def _us(ns: int) -> Raw:
    """Microseconds, as the format has them, with all digits."""
    return Raw(f"{ns // 1000}.{ns % 1000:03}".encode())


def _tracks(report: Report, language: Language) -> Iterator[tuple[str, list[PerfettoEvent]]]:
    """Titles of tracks with their events: findings, critical path, idle time, phases."""
    slices = report.result("slices", RecordedSlices)
    assert slices is not None  # noqa: S101 - there is a range, which is out of it
    for finding in report.findings:
        shown = card(finding, language)
        title = clean(shown.title).replace("`", "")
        args = {"rule": finding.rule, "saving": shown.time or ""}
        for entry in finding.where:
            track = [PerfettoEvent(start, length, title, args) for start, length in entry.spans]
            yield language.text(_FINDING, title=title), track
    yield language.text(_PATH), list(_path(report, language))
    yield from _of_step(slices, slices.times[0], language)


def _path(report: Report, language: Language) -> Iterator[PerfettoEvent]:
    found = report.result("critical_path", CriticalPath)
    if found is None or found.stretches_start_ns is None:
        return
    for each in found.stretches:
        args = {"mostly": clean(each.mostly)} if each.mostly else {}
        name = language.text(critical_path.resource_label(each.resource))
        yield PerfettoEvent(found.stretches_start_ns + each.start_ns, each.duration_ns, name, args)


def _of_step(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[tuple[str, list[PerfettoEvent]]]:
    """Idle times by cause, and the phases of each thread."""
    labels = [language.text(CAUSE_LABELS.get(cause, CAUSE_LABELS["unknown"])) for cause in slices.causes]
    rows = zip(accumulate(one.idle_start), one.idle_duration, one.idle_cause, strict=True)
    idle = [PerfettoEvent(one.start_ns + start, length, labels[cause], {}) for start, length, cause in rows]
    yield language.text(_IDLE, device=slices.device), idle
    for lane in one.lanes:
        if lane.kind == "marks":
            marks = zip(accumulate(lane.start), lane.duration, lane.name, strict=True)
            yield (
                language.text(_PHASES, thread=clean(lane.label)),
                [PerfettoEvent(one.start_ns + at, length, clean(slices.names[name]), {}) for at, length, name in marks],
            )
