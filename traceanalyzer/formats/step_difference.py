"""What a difference says of a step: the verdict with its reason, and how long a step is on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from traceanalyzer.report.difference import Difference, Shift, StepTime
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import shorten, word
from traceanalyzer.report.section import SectionTable
from traceanalyzer.report.warnings import STEP_REASONS
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, known, table

_LONGEST = 600
"""Most characters of a message, because names in a trace may be very long."""
_CHANGED = Text(
    "diff-changed",
    "{before:ns} \u2192 {after:ns} per step ({share:+share})",
    "times of a step before and after a change",
)
_PROMISED = {
    "as-predicted": Text(
        "diff-changed-as-predicted",
        "{before:ns} \u2192 {after:ns} per step ({share:+share}), as predicted ({predicted:estimate})",
        "times of a step before and after a change; predicted is an interval such as 20-36 ms",
    ),
    "less": Text(
        "diff-changed-less",
        "{before:ns} \u2192 {after:ns} per step ({share:+share}), less than predicted ({predicted:estimate})",
        "times of a step before and after a change; predicted is an interval such as 20-36 ms",
    ),
    "more": Text(
        "diff-changed-more",
        "{before:ns} \u2192 {after:ns} per step ({share:+share}), more than predicted ({predicted:estimate})",
        "times of a step before and after a change; predicted is an interval such as 20-36 ms",
    ),
    "cannot-tell": Text(
        "diff-changed-unclear",
        "{before:ns} \u2192 {after:ns} per step ({share:+share}); predicted: {predicted:estimate}",
        "times of a step before and after a change; predicted is an interval such as 20-36 ms",
    ),
}
"""The change of a step beside what was predicted."""
_APART = Text("diff-apart", "A step takes {base:ns} before and {head:ns} after.", "of sides that cannot be compared")
TEST = Text("diff-test", "Test", "of statistics, whether a change is more than noise")
_TEST = Text("diff-test-p", "p {p:probability}", "result of a test of statistics")
_TESTS = {
    "rank-sum": Text("diff-test-rank-sum", "rank-sum, p {p:probability}", "a test of statistics, and its result"),
    "welch": Text("diff-test-welch", "Welch, p {p:probability}", "a test of statistics, and its result"),
}
_MEAN = Text("diff-row-mean", "Mean")
_ALL_MEAN = Text("diff-row-all-mean", "Mean of all recorded steps")
_SIDES = (Column(Text("diff-statistic", "Per step"), "", "label"), columns.BASE, columns.HEAD)
_CHANGES = (
    columns.CHANGE.of("shift.change_ns"),
    Column(Text("diff-change-share", "Change, %"), "+share", "shift.change_share"),
    Column(
        Text("diff-at-least", "From", "lower end of an interval"),
        "+ns",
        lambda row: row.shift.interval_ns and row.shift.interval_ns[0],
        if_any=known,
    ),
    Column(
        Text("diff-at-most", "To (95 %)", "upper end of a 95 % interval"),
        "+ns",
        lambda row: row.shift.interval_ns and row.shift.interval_ns[1],
        if_any=known,
    ),
    Column(
        TEST,
        "",
        lambda row: None if row.shift.p is None else _TESTS.get(row.shift.method, _TEST)(p=row.shift.p),
        if_any=known,
        is_extra=True,
    ),
)


_YES, _NO = Text("diff-unusual-yes", "yes"), Text("diff-unusual-no", "no")
_UNUSUAL = (
    Column(
        Text("diff-unusual-reason", "Why", "why steps are unlike the typical ones: a long wait for the DataLoader"),
        "",
        lambda row: word(STEP_REASONS, row.reason),
    ),
    Column(Text("diff-unusual-base", "Steps before"), "number", "base_count"),
    Column(Text("diff-unusual-head", "Steps after"), "number", "head_count"),
    Column(Text("diff-unusual-base-mean", "Mean before"), "ns", "base_ns", if_any=known),
    Column(Text("diff-unusual-head-mean", "Mean after"), "ns", "head_ns", if_any=known),
    Column(
        Text(
            "diff-unusual-judged", "In the mean of all", "whether such steps are part of the mean of all recorded steps"
        ),
        "",
        lambda row: _YES if row.is_judged else _NO,
        is_extra=True,
    ),
)


class _TimeRow(NamedTuple):
    """A statistic of the step time on both sides."""

    label: Text | Message
    base_ns: float
    head_ns: float
    shift: Shift


def changed(difference: Difference) -> Message | None:
    """How long a step is before and after, and whether that was predicted; None where it is not known, or the same.

    It is the mean, as in the pictures of both steps, unless the verdict rests on a median that changed otherwise.
    """
    verdict, prediction = difference.verdict, difference.prediction
    change, share = verdict.change_ns, verdict.change_share
    if not change or not share or difference.comparability.obstacle is not None:
        return None
    times = difference.step_time
    said: dict[str, Any] = {"before": change / share, "after": change / share + change, "share": share}
    if times is not None and is_of_means(difference):
        said = {"before": times.base.mean_ns, "after": times.head.mean_ns, "share": times.mean.change_share}
    elif times is not None:
        prediction = None  # which is of the mean
    text = _CHANGED if prediction is None else _PROMISED.get(prediction.agreement, _CHANGED)
    if prediction is not None and text is not _CHANGED:
        low, high = prediction.predicted_ns
        said["predicted"] = (low, None, high)
    return text(**said)


def is_of_means(difference: Difference) -> bool:
    """Whether what is said of the step is its mean, which pictures show."""
    times, verdict = difference.step_time, difference.verdict
    is_sided = verdict.outcome in ("faster", "slower")
    return times is None or not is_sided or times.mean.change_ns * (verdict.change_ns or 0.0) > 0


def messages(difference: Difference) -> Iterator[Message]:
    """The answer, first of all that there is none; of programs that have no work in common nothing else."""
    comparability = difference.comparability
    reason = short(difference.verdict.reason)
    if comparability.is_unrelated:
        yield from (check.message for check in comparability.checks if check.id == "work")
    elif comparability.obstacle is not None:
        yield reason
        if (times := difference.step_time) is not None:
            yield _APART(base=times.base.mean_ns, head=times.head.mean_ns)
    else:
        change = changed(difference)
        yield from () if change is None else (change,)
        yield reason
    if difference.attribution is not None and difference.verdict.outcome != "no-change":
        yield difference.attribution
    if difference.gate is not None:
        yield difference.gate.reason


def short(message: Message) -> Message:
    """A message of a length that can be read."""
    return Message(message.id, message.params, shorten(message.text, _LONGEST))


def times(difference: Difference, times: StepTime) -> SectionTable:
    """The table of mean and median; without changes where the sides cannot be compared."""
    rows = [_TimeRow(_MEAN, times.base.mean_ns, times.head.mean_ns, times.mean)]
    if times.base.count > 1 or times.head.count > 1:
        rows.append(_TimeRow(columns.MEDIAN.title, times.base.median_ns, times.head.median_ns, times.median))
    is_other = any(row.is_judged for row in difference.unusual)
    if is_other and times.all_base is not None and times.all_head is not None and times.all_mean is not None:
        rows.append(_TimeRow(_ALL_MEAN, times.all_base.mean_ns, times.all_head.mean_ns, times.all_mean))
    is_comparable = difference.comparability.obstacle is None
    return table("diff_times", (*_SIDES, *_CHANGES) if is_comparable else _SIDES, rows)


def unusual(difference: Difference) -> SectionTable:
    """The table of steps that are unlike the typical ones."""
    return table("diff_unusual", _UNUSUAL, difference.unusual)
