"""The headline of several measurements of one program: what became of its step, and whether that was predicted."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections import several_runs, story
from traceanalyzer.sections.story import Story

_TITLE = Text("story-headline-title", "From the first to the last measurement")
_FASTER = Text("story-headline-faster", "{before:ns} \u2192 {after:ns} per step, {times:factor}x as fast.")
_SLOWER = Text("story-headline-slower", "{before:ns} \u2192 {after:ns} per step, {times:factor}x as long.")
_AGREED = {
    "as-predicted": Text(
        "story-headline-as-predicted",
        "{before:ns} \u2192 {after:ns} per step, {times:factor}x, as predicted.",
    ),
    "less": Text(
        "story-headline-less",
        "{before:ns} \u2192 {after:ns} per step, {times:factor}x as fast, less than predicted.",
    ),
    "more": Text(
        "story-headline-more",
        "{before:ns} \u2192 {after:ns} per step, {times:factor}x as fast, more than predicted.",
    ),
}


def build(report: Report, top: int) -> Iterator[Section]:
    """The headline of a story, and what limits the last run; nothing of other reports."""
    del top
    said = of_report(report)
    if said is not None:
        last = several_runs.of_one_program(report)[-1].id
        verdicts = (headline.message for headline in report.headlines if headline.run == last)
        messages = (said, *map(story.plain, verdicts))
        yield Section("headline", _TITLE, messages=messages, topic=Topic.SUMMARY, is_essential=True)


def of_report(report: Report) -> Message | None:
    """What became of the step; None for a report that tells no story."""
    told = story.of_document(report)
    return None if told is None else _of_story(told)


def _of_story(told: Story) -> Message | None:
    before, after = told.chapters[0].step_ns, told.chapters[-1].step_ns
    if not before or not after or told.unsure is not None:
        return None
    if after > before:
        return _SLOWER(before=before, after=after, times=after / before)
    agreed = told.expected[2] if told.expected else ""
    return _AGREED.get(agreed, _FASTER)(before=before, after=after, times=before / after)
