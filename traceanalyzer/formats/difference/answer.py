"""Sections for the verdict: is it faster or slower, by how much, why, and are the two sides comparable?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats.difference.labels import columns
from traceanalyzer.formats.names import shorten
from traceanalyzer.formats.words import word
from traceanalyzer.report.difference import PART_LABELS, ChangedPart, Difference, Shift, Side, StepTime
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable

_LONGEST = 600
"""Most characters of a message, because names in a trace may be very long."""

_TITLES = {
    "faster": Text("diff-outcome-faster", "Faster"),
    "slower": Text("diff-outcome-slower", "Slower"),
    "no-change": Text("diff-outcome-no-change", "No change"),
    "inconclusive": Text("diff-outcome-inconclusive", "Inconclusive"),
}
_BOTH = Text(
    "diff-both",
    "A step went from {mean_base:ns} to {mean_head:ns} in the mean ({mean_share:share}) and from {median_base:ns} to "
    "{median_head:ns} in the median ({median_share:share}).",
)
_TIMES = Text("diff-times-title", "Step time")
_STATISTIC = SectionColumn(Text("diff-statistic", "Per step"), "")
_MEAN, _MEDIAN = Text("diff-row-mean", "Mean"), Text("diff-row-median", "Median")
_TIME_COLUMNS = (
    _STATISTIC,
    *columns("ns"),
    SectionColumn(Text("diff-change-share", "Change, %"), "share"),
    SectionColumn(Text("diff-at-least", "From", "lower end of an interval"), "ns"),
    SectionColumn(Text("diff-at-most", "To (95 %)", "upper end of a 95 % interval"), "ns"),
)
_PARTS = Text("diff-parts-title", "Parts of the step")
_PARTS_PRINTED = Text("diff-parts-printed-title", "Profiled time")
_PART = SectionColumn(Text("diff-part", "Part"), "")
_SHARE = SectionColumn(Text("diff-part-share", "Of the change"), "share")
_CLEAR = SectionColumn(Text("diff-part-clear", "Beyond noise"), "bool")
_TRUST = Text("diff-trust-title", "Can they be compared?")
_SCORE = Text("diff-score", "Comparability")
_ALL_CHECKS = Text("diff-checks-title", "All conditions of the comparison")
_BASE, _HEAD = Text("diff-side-base", "Base"), Text("diff-side-head", "Head")
_SIDE = Text(
    "diff-side",
    "{name}: {traces:count} traces, steps: {steps:count}",
    "a name, and how much it holds",
    "{name}: {traces:count} trace, steps: {steps:count}",
)
_RUN = Text("diff-side-run", "{name}, {run} ({title}), steps: {steps:count}", "a run of a document")
_IGNORED = Text(
    "diff-ignored",
    "{count:count} files of {name} are not traces and were left out: {files}.",
    one="{count:count} file of {name} is not a trace and was left out: {files}.",
)


def build(difference: Difference) -> Iterator[Section]:
    """Build the answer, the step times behind it, and the parts of the step."""
    yield Section(
        "verdict", word(_TITLES, difference.verdict.outcome), messages=tuple(_messages(difference)), is_essential=True
    )
    times = difference.step_time
    if times is not None:
        yield Section("times", _TIMES, tables=(_times(times),), is_essential=True)
    if difference.parts:
        yield Section("parts", _PARTS if times else _PARTS_PRINTED, tables=(_parts(difference.parts),))


def _messages(difference: Difference) -> Iterator[Message]:
    times = difference.step_time
    if times is not None:
        yield _BOTH(
            mean_base=times.base.mean_ns,
            mean_head=times.head.mean_ns,
            mean_share=times.mean.change_share,
            median_base=times.base.median_ns,
            median_head=times.head.median_ns,
            median_share=times.median.change_share,
        )
    yield _short(difference.verdict.reason)
    if difference.attribution is not None and difference.verdict.outcome != "no-change":
        yield difference.attribution
    if difference.gate is not None:
        yield difference.gate.reason


def _short(message: Message) -> Message:
    return Message(message.id, message.params, shorten(message.text, _LONGEST))


def _times(times: StepTime) -> SectionTable:
    rows = [_shift(_MEAN, times.base.mean_ns, times.head.mean_ns, times.mean)]
    if times.base.count > 1 or times.head.count > 1:
        rows.append(_shift(_MEDIAN, times.base.median_ns, times.head.median_ns, times.median))
    return SectionTable("diff_times", _TIME_COLUMNS, tuple(rows), len(rows))


def _shift(label: Text, base: float, head: float, shift: Shift) -> tuple[object, ...]:
    return label, base, head, shift.change_ns, shift.change_share, *(shift.interval_ns or (None, None))


def _parts(parts: tuple[ChangedPart, ...]) -> SectionTable:
    """Table of the parts without empty columns.

    Shares are also left out where parts changed in opposite directions: some would be above 100 %, others below 0.
    """
    columns_ = (_PART, *columns("ns"), _SHARE, _CLEAR)
    are_shares = all(0 <= part.change_share <= 1 for part in parts if part.change_share is not None)
    rows = [
        (
            word(PART_LABELS, p.id),
            p.base_ns,
            p.head_ns,
            p.change_ns,
            p.change_share if are_shares else None,
            p.clear,
        )
        for p in parts
    ]
    kept = [i for i in range(len(columns_)) if i < 4 or any(row[i] is not None for row in rows)]
    shown = tuple(tuple(row[i] for i in kept) for row in rows)
    return SectionTable("diff_parts", tuple(columns_[i] for i in kept), shown, len(rows))


def trust(difference: Difference) -> Iterator[Section]:
    """Build the section on comparability: differences, notes, and all conditions in detail."""
    found = difference.comparability
    unlike = [check.message for check in found.checks if check.similarity is not None and check.similarity < 1]
    messages = tuple(map(_short, (*unlike, *difference.notes, *_ignored(difference))))
    facts = (Fact(_SCORE, found.score, "share"), *_sides(difference))
    yield Section("trust", _TRUST, messages=messages, facts=facts)
    checks = tuple(_short(check.message) for check in found.checks)
    yield Section("checks", _ALL_CHECKS, messages=checks, is_detail=True)


def _sides(difference: Difference) -> Iterator[Fact]:
    for label, side in ((_BASE, difference.base), (_HEAD, difference.head)):
        yield Fact(label, _side(side), "")


def _side(side: Side) -> Message:
    name = shorten(side.name, 120)
    if side.run is not None:
        return _RUN(name=name, run=side.run, title=shorten(side.title or "", 120), steps=side.steps)
    return _SIDE(name=name, steps=side.steps, traces=side.traces)


def _ignored(difference: Difference) -> Iterator[Message]:
    for side in (difference.base, difference.head):
        if side.ignored:
            yield _IGNORED(count=len(side.ignored), name=side.name, files=", ".join(side.ignored[:5]))
