"""What the script of the timeline draws: the slices of all times as texts of digits, and where findings are in them.

A column is one text: each number has as many characters as it needs, of 5 bits each, as in source maps (base64 VLQ).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from urllib.parse import quote

import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.steps import Timeline
from traceanalyzer.analyzers.steps.slice_rows import SliceLane, columns, differences, fitting, rows_of
from traceanalyzer.analyzers.steps.slices import OF_EVENTS, RecordedSlices, SliceTime
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.names import clean
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, take_or

_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_BITS = 5
_MORE = 1 << _BITS
_ROLES = {
    "main": Text("timeline-main", "Main", "a thread of the program"),
    "autograd": Text("timeline-autograd", "Autograd", "a thread of autograd"),
    "loader": Text("timeline-loader", "Loader", "a thread that loads data"),
}
_THREAD = Text("timeline-thread", "Thread {thread}")
_PHASES = Text("timeline-phases", "{thread}: phases", "thread is Main or Autograd; phases are ranges that people mark")
_OWNERS = Text("timeline-owners", "{thread}: program", "parts of the program that a thread is in")
_CALLS = Text("timeline-calls", "{thread}: calls", "calls of the runtime of the GPU")
_STREAM = Text("timeline-stream", "Stream {stream}")
_STREAM_OF = Text("timeline-stream-of", "{device}, stream {stream}", "device is GPU 0")
GPU = Text("timeline-gpu", "GPU {device}")
_OF_THREAD = {"marks": _PHASES, "owners": _OWNERS, "launches": _CALLS}
WHOLE = Text("timeline-whole", "The whole trace, {duration:ns}")
_TIMES = {
    "typical": Text("timeline-typical", "Typical step: {name}, {duration:ns}"),
    "slowest": Text("timeline-slowest", "Slowest step: {name}, {duration:ns}"),
    "first": Text("timeline-first", "First step: {name}, {duration:ns}"),
    "recording": WHOLE,
}
_OUTSIDE = {
    "before": Text("timeline-before", "Before the first step, {duration:ns}"),
    "between": Text("timeline-between", "Between steps, {duration:ns}"),
    "after": Text("timeline-after", "After the last step, {duration:ns}"),
    "left-out-step": Text("timeline-left-out-step", "Steps that do not count, {duration:ns}"),
}
_APART = Text("timeline-apart", "Outside of the typical steps, {duration:ns}")
_LEFT_OUT = (
    Text(
        "timeline-hidden",
        "{count:count} events of the threads and streams with least to show are not drawn.",
        one="{count:count} event of the threads and streams with least to show is not drawn.",
    ),
    Text(
        "timeline-blocks",
        "{count:count} events that are shorter than {length:ns} are drawn as blocks of neighbours.",
        one="{count:count} event that is shorter than {length:ns} is drawn as a block.",
    ),
    Text(
        "timeline-idle-omitted",
        "{count:count} short pauses of the GPU are not shaded, {time:ns} in all.",
        one="{count:count} short pause of the GPU is not shaded, {time:ns}.",
    ),
)
_NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class TimelineTimes:
    """The times of the timeline, in the detail of the page."""

    slices: RecordedSlices
    findings: tuple[tuple[str, Finding], ...]
    """Anchors of the cards of findings, and the findings."""

    def address(self, number: int, start_ns: int, end_ns: int, finding: str | None = None) -> str:
        """The part of an address after # that shows a range of a time; times in ns from its start."""
        parts = [f"{self.key(number)}", f"t={_ms(start_ns)}-{_ms(end_ns)}"]
        return "&".join([*parts, f"finding={finding}"] if finding else parts)

    def key(self, number: int) -> str:
        """What names a time in an address."""
        chosen = self.slices.times[number]
        if chosen.kind in ("outside", "recording"):
            return f"time={chosen.kind}{number if chosen.kind == 'outside' else ''}"
        return f"step={quote(chosen.name or '', safe='')}"

    def of_moment(self, at_ns: int) -> int | None:
        """The time of most detail that contains a moment of the recording."""
        times = enumerate(self.slices.times)
        return next((i for i, one in times if 0 <= at_ns - one.start_ns <= one.duration_ns), None)

    def moment(self, at_ns: int) -> str | None:
        """The address of a moment of the recording, after #; None if no time that is drawn contains it."""
        return None if self.of_moment(at_ns) is None else f"at={_ms(at_ns)}"

    def of_finding(self, finding: Finding) -> tuple[int, int, int] | None:
        """The time with most of a finding among those of most detail, and the range in which the finding is there."""
        spans = [(start, start + length) for entry in finding.where for start, length in entry.spans]
        for number, one in enumerate(self.slices.times):
            inside = [
                (max(a, one.start_ns) - one.start_ns, min(b, one.start_ns + one.duration_ns) - one.start_ns)
                for a, b in spans
                if a < one.start_ns + one.duration_ns and b > one.start_ns
            ]
            if inside:
                return number, min(a for a, _ in inside), max(b for _, b in inside)
        return None

    def link(self, id_: str, finding: Finding) -> str | None:
        """The address of a finding in the timeline, after #; None if it is in no time that is drawn."""
        shown = self.of_finding(finding)
        return None if shown is None else self.address(*shown, id_)


def _ms(ns: int) -> str:
    """Milliseconds in an address, exact and without zeros at the end."""
    whole, rest = divmod(ns, _NS_PER_MS)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".")


def times(report: Report, findings: Iterable[tuple[str, Finding]], detail: PageDetail) -> TimelineTimes | None:
    """The times that the timeline shows; reports of older versions have one."""
    slices = report.result("slices", RecordedSlices)
    saved = report.result("timeline", Timeline)
    if slices is None and saved is not None and saved.duration_ns:
        slices = _of_saved(saved)
    if slices is None or not any(lane.start for one in slices.times for lane in one.lanes):
        return None
    fewer = tuple(_with_known_causes(_fitted(one, detail.slices), len(slices.causes)) for one in slices.times)
    return TimelineTimes(_with_used_names(replace(slices, times=fewer)), tuple(findings))


def _with_known_causes(one: SliceTime, causes: int) -> SliceTime:
    """Without idle times if one has no known cause, as in a report that another program wrote."""
    if all(0 <= cause < causes for cause in one.idle_cause):
        return one
    return replace(one, idle_start=(), idle_duration=(), idle_cause=())


def _with_used_names(slices: RecordedSlices) -> RecordedSlices:
    """Without the names of slices that are not drawn; slices whose name is not among them have none."""
    drawn_names = {name for one in slices.times for lane in one.lanes for name in set(lane.name)}
    used = sorted(name for name in drawn_names if 0 <= name < len(slices.names))
    position = np.full(len(slices.names), -1)
    position[used] = np.arange(len(used))
    drawn = tuple(
        replace(one, lanes=tuple(replace(lane, name=_renumbered(position, lane.name)) for lane in one.lanes))
        for one in slices.times
    )
    return replace(slices, names=tuple(slices.names[name] for name in used), times=drawn)


def _renumbered(position: I64, names: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(take_or(position, np.array(names, np.int64), -1).tolist())


def _of_saved(timeline: Timeline) -> RecordedSlices:
    """The one step that reports of older versions have, whose short slices have no names."""
    lanes = (
        SliceLane(
            lane.kind,
            lane.label,
            None,
            differences(np.array([item.start_ns for item in lane.slices], np.int64)),
            tuple(item.duration_ns for item in lane.slices),
            tuple(item.depth for item in lane.slices),
            tuple(-1 if item.name is None else item.name for item in lane.slices),
            tuple(item.count for item in lane.slices),
        )
        for lane in timeline.lanes
    )
    events = sum(item.count for lane in timeline.lanes if lane.kind != "marks" for item in lane.slices)
    frame = (timeline.start_ns, timeline.duration_ns, timeline.resolution_ns, events, timeline.hidden_lanes, 0)
    typical = SliceTime("typical", timeline.step, *frame, tuple(lanes), (), (), (), 0, 0)
    return RecordedSlices(timeline.names, (), None, 0, (typical,))


def _fitted(one: SliceTime, most: int) -> SliceTime:
    """With at most so many slices, and idle times."""
    idle = _longest_idle(one, most)
    rows, cell = fitting(rows_of(one.lanes), most, one.duration_ns)
    return replace(idle, lanes=tuple(columns(rows, one.lanes)), resolution_ns=cell) if cell else idle


def _longest_idle(one: SliceTime, most: int) -> SliceTime:
    lengths = sorted(one.idle_duration, reverse=True)
    if len(lengths) <= most:
        return one
    starts = list(accumulate(one.idle_start))
    kept = [row for row, length in enumerate(one.idle_duration) if length > lengths[most]]
    return replace(
        one,
        idle_start=differences(np.array([starts[row] for row in kept], np.int64)),
        idle_duration=tuple(one.idle_duration[row] for row in kept),
        idle_cause=tuple(one.idle_cause[row] for row in kept),
        idle_omitted=one.idle_omitted + len(lengths) - len(kept),
        idle_omitted_ns=one.idle_omitted_ns + sum(lengths) - sum(one.idle_duration[row] for row in kept),
    )


def packed(values: Sequence[int]) -> str:
    """Numbers as one text, in which each has as many characters as it needs."""
    given = np.array(values, np.int64)
    if not len(given):
        return ""
    # the sign is the lowest bit, as in source maps
    number = np.where(given < 0, (-given << 1) | 1, given << 1)
    # characters that each number needs, and which character is the first of each
    size = np.maximum(1, -(-np.frexp(number.astype(np.float64))[1] // _BITS))
    begin = np.cumsum(size) - size
    # a row for each character: which one of its number it is, its five bits, and whether another one follows
    which = np.arange(int(size.sum())) - np.repeat(begin, size)
    bits = (np.repeat(number, size) >> (_BITS * which)) & (_MORE - 1)
    is_followed = which < np.repeat(size, size) - 1
    text: bytes = _DIGITS[bits + _MORE * is_followed].tobytes()
    return text.decode("ascii")


def time_label(one: SliceTime, *, is_marked: bool, language: Language) -> str:
    """What a time is called in the list of times."""
    if one.kind == "outside":
        return language.text(_OUTSIDE.get(one.name or "", _APART), duration=one.duration_ns)
    text = _TIMES.get(one.kind, WHOLE) if is_marked else WHOLE
    return language.text(text, name=clean(one.name or ""), duration=one.duration_ns)


def lane_label(lane: SliceLane, *, several_devices: bool, language: Language) -> str:
    """What people call a lane."""
    if lane.kind in ("device", "accelerator"):
        device, _, stream = lane.label.partition("/")
        named = language.text(GPU, device=device) if lane.kind == "device" else device
        if lane.kind == "device" and not several_devices:
            return clean(language.text(_STREAM, stream=stream))
        return clean(language.text(_STREAM_OF, device=named, stream=stream))
    known = _ROLES.get(lane.role or "")
    thread = language.text(known) if known else language.text(_THREAD, thread=lane.label.rpartition("/")[2])
    return clean(language.text(_OF_THREAD[lane.kind], thread=thread) if lane.kind in _OF_THREAD else thread)


def left_out(one: SliceTime, language: Language) -> list[str]:
    """What is not drawn of a time, counted."""
    blocks = sum(count for lane in one.lanes if lane.kind in OF_EVENTS for count in lane.count if count > 1)
    counts: tuple[tuple[int, dict[str, int]], ...] = (
        (one.hidden_events, {}),
        (blocks, {"length": one.resolution_ns}),
        (one.idle_omitted, {"time": one.idle_omitted_ns}),
    )
    pairs = zip(_LEFT_OUT, counts, strict=True)
    return [language.text(text, count=count, **more) for text, (count, more) in pairs if count]


def idle_findings(shown: TimelineTimes, one: SliceTime) -> list[int]:
    """For each idle time the finding that is about it, by position; -1 for none.

    That is the first one that claims half of it, else the first that is about this cause, else the one that claims most
    idle time of the cause: findings list only their longest times.
    """
    if not one.idle_cause:
        return []
    of_time, of_cause = _claims(shown, one)
    cause = np.array(one.idle_cause, np.int64)
    finding_of: list[int] = np.where(of_time >= 0, of_time, of_cause[cause]).tolist()
    return finding_of


def _claims(shown: TimelineTimes, one: SliceTime) -> tuple[I64, I64]:
    """The first finding that claims half of each idle time, and the finding that each cause has; -1 for none."""
    length = np.array(one.idle_duration, np.int64)
    cause = np.array(one.idle_cause, np.int64)
    start = np.cumsum(np.array(one.idle_start, np.int64)) + one.start_ns
    causes = shown.slices.causes

    of_time = np.full(len(start), -1)
    of_cause = np.full(len(causes), -1)
    most = np.zeros(len(causes))  # what the finding of each cause claims of it
    for number, (_, finding) in enumerate(shown.findings):
        inside = _claimed(finding, start, length)
        claims_half = (2 * inside >= length) & (length > 0)
        of_time[claims_half & (of_time < 0)] = number
        claimed = np.bincount(cause, weights=inside, minlength=len(causes))
        claimed[_is_about(finding, causes)] = 2.0 * one.duration_ns  # more than any other can claim
        of_cause[claimed > most] = number
        most = np.maximum(most, claimed)

    has_most = most >= np.bincount(cause, weights=length, minlength=len(causes)) / 2
    return of_time, np.where(has_most, of_cause, -1)


def _claimed(finding: Finding, start: I64, length: I64) -> I64:
    """How much of each idle time a finding claims, in ns."""
    spans = np.array([span for entry in finding.where for span in entry.spans], np.int64).reshape(-1, 2)
    return Intervals.union(spans[:, 0], spans.sum(axis=1)).within(start, start + length)


def _is_about(finding: Finding, causes: Iterable[str]) -> list[bool]:
    """Of each cause of idle time, whether a finding is about it as a whole."""
    named = {entry.name for entry in finding.where if entry.kind == "idle"}
    return [cause in named for cause in causes]


def spans_of(finding: Finding) -> list[dict[str, Any]]:
    """The times of a finding for the script, by lane."""
    return [
        {
            "kind": entry.kind,
            "lane": entry.thread if entry.device is None else str(entry.device),
            "start": packed(differences(np.array([start for start, _ in entry.spans], np.int64))),
            "length": packed([length for _, length in entry.spans]),
        }
        for entry in finding.where
        if entry.spans
    ]
