"""What a comment shows before anything is folded: one bold sentence, a strip of the step, and the first findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from unicodedata import east_asian_width

from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.analyzers.steps import Lane, Timeline
from traceanalyzer.analyzers.steps.slices import RecordedSlices, SliceTime
from traceanalyzer.formats import cards, code_comments, run_difference, sarif, step_difference
from traceanalyzer.formats.html import strip_lanes, waterfall
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.markdown.page import DocumentPicture, code, escape, image, prose
from traceanalyzer.report.difference import ChangedPart, Difference, FindingChange
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.names import clipped, first_sentence
from traceanalyzer.report.section import Section
from traceanalyzer.sections import overview
from traceanalyzer.sections.outcome import FIRST, first, outcome
from traceanalyzer.structure.recording import Recording

_CELLS = 60
"""Blocks of a strip: with its label it fits into the 900 pixels of a comment."""
_HOST = Text("comment-strip-host", "CPU", "a row of blocks that shows what the CPU does in a step")
_DEVICE = Text("comment-strip-device", "GPU", "a row of blocks that shows what the GPU does in a step")
_BEFORE = Text("comment-strip-before", "before", "a row of blocks that shows a step before a change")
_AFTER = Text("comment-strip-after", "after", "a row of blocks that shows a step after a change")
_STEP = Text(
    "comment-strip-step", "Step {step}, {duration:ns}; a block is {block:ns}.", "step is its number or its mark"
)
_SCALE = Text("comment-strip-scale", "A block is {block:ns} of a step.", "below rows of blocks")
_WORKS = Text("comment-strip-works", "works", "what a block of a strip means")
_COMPUTES = Text("comment-strip-computes", "computes", "what a block of a strip means")
_IDLE = Text("comment-strip-idle", "idle", "what a block of a strip means: a device or thread has nothing to do")
_OTHER = Text("comment-strip-other", "CPU and other time", "what a block of a strip means")
_BLOCKS = {
    "loader": ("\u2591", Text("comment-strip-loader", "waits for the DataLoader", "what a block of a strip means")),
    "copy": ("\u2592", Text("comment-strip-copies", "copies", "what a block of a strip means; a verb")),
    "communication": ("\u2593", Text("comment-strip-communicates", "communicates", "what a block of a strip means")),
}
_FULL, _NONE, _REST = "\u2588", "\u00b7", "\u2584"
_OF_TONE = {"dataloader": "loader", "memcpy": "copy", "memset": "copy", "communication": "communication"}
_STEPS = Text("comment-steps", "{steps:count} steps", "of a trace", one="{steps:count} step")
_PAGE = Text("comment-page", "Whole report", "a link to the page of a report")
_MEASURED = "\u23f1\ufe0f"
_ICONS = {"none": "\u2753", "capture": "\u2753", "hang": "\U0001f6d1", "memory": "\U0001f4be"}
"""Signs before verdicts that are not about the time of a step."""
_NOTHING_WAITS = "\u2705"
_OUTCOME_ICONS = {"faster": "\u26a1", "slower": "\U0001f422", "no-change": "\u2796", "inconclusive": "\u2753"}
"""Signs before verdicts of comparisons."""
_VERDICT = Text(
    "comment-verdict-and-change", "{outcome}: {change}", "outcome is a word such as Faster; change is times"
)
_BEYOND_NOISE = Text("comment-beyond-noise", "This is more than noise (p {p:probability}).", "of a change")
_FIXED = Text("comment-fixed", "Fixed: {titles}.", "titles of findings that are gone, with their change")
_CHANGED_BY = Text("comment-changed-by", "{title} ({change})", "a finding, and the change of its time with a sign")
_OF_STATUS = Text("comment-of-status", "{status}: {title}", "status is a word such as new; title is that of a finding")
_OF_TESTS = frozenset({"diff-test-faster", "diff-test-slower"})
"""Reasons of verdicts that are the result of a test, whose share is that of the tested statistic."""
_SAVES = Text("comment-saves", "Saves {price:estimate} per step.", "price is an interval, such as up to 3 ms")
_MAY_SAVE = Text("comment-may-save", "May save {price:estimate} per step.", "price is an interval, such as up to 3 ms")
_ARROW = " \u2192 "
_PLACE = 48
_HASH = 8
"""Characters of a shown hash of a commit."""
_NAME = 80
_SEEN = 300
_TITLE = 200
_LONGEST = 600
"""Most characters of a sentence of the first lines (own choice: twice the longest that has no long name)."""


@dataclass(frozen=True)
class Origin:
    """What a comment on a report names besides it; None is unknown."""

    page_url: str | None = None
    """Address of the page of the same report, which the comment links to."""
    commit: str | None = None
    """Commit of the program that was recorded."""


NOWHERE = Origin()


def verdict(report: Report, language: Language) -> str:
    """The sentence of the only headline with an icon, or of the first one; empty without any."""
    if not report.headlines:
        return ""
    headline = report.headlines[0]
    if headline.bound == "none" and report.result("hangs", Hangs) is not None:
        return f"{_NOTHING_WAITS} {_said(headline.message, language)}"
    return f"{_ICONS.get(headline.bound, _MEASURED)} {_said(headline.message, language)}"


def _said(message: Message, language: Language) -> str:
    """A sentence of the first lines, which names out of a file do not make longer than a comment."""
    return clipped(language.say(message), _LONGEST)


def of_report(
    report: Report,
    shown: Iterable[Section],
    language: Language,
    pictures: Sequence[DocumentPicture],
    origin: Origin,
) -> Iterator[str]:
    """Blocks of Markdown on a report: what qualifies the verdict, what a step would be, and the first findings."""
    by_id = {section.id: section for section in shown}
    for headline in report.headlines[:1]:
        more = (headline.qualifier, outcome(headline, report.findings))
        if said := "\\\n".join(prose(_said(each, language)) for each in more if each):
            yield said
    yield " \u00b7 ".join(_of_what(report, language, origin))
    public = (picture for picture in pictures if picture.section == "steps" and "://" in picture.target)
    chart = next(public, None)
    strip = image(chart) if chart else _drawn(report, language)
    if strip:
        yield strip
    if "findings" in by_id:
        yield from _advice(by_id["findings"], language)
    if "no_gain" in by_id:
        yield " ".join(prose(_said(message, language)) for message in by_id["no_gain"].messages)


def _of_what(report: Report, language: Language, origin: Origin) -> Iterator[str]:
    """The file and its commit, the GPU, torch, the number of steps, and the page."""
    yield _named(report.source.name, origin.commit)
    if report.trace is not None:
        names = dict.fromkeys(clipped(device.name, _NAME) for device in report.trace.devices if device.name)
        yield from map(escape, names)
        if report.trace.torch_version:
            yield escape(f"torch {clipped(report.trace.torch_version, _NAME)}")
    recording = report.result("recording", Recording)
    if recording is not None and recording.steps and recording.steps_from != "whole-trace":
        yield escape(language.text(_STEPS, steps=len(recording.steps)))
    if origin.page_url is not None:
        yield link(language, origin.page_url)


def link(language: Language, page_url: str) -> str:
    """A link to the page of a report or a difference."""
    return f"[{escape(language.text(_PAGE))}]({page_url})"


def _advice(section: Section, language: Language) -> Iterator[str]:
    """The first findings: what to do, what that saves, how and where it begins, and what was seen.

    Then the other fixes that were counted; without a finding, what to do next.
    """
    shown = [_card(finding, language) for finding in first(section.findings)]
    said = [prose(_said(message, language)) for message in section.messages]
    if shown:
        yield "\n".join(f"{number}. {text}" for number, text in enumerate((*shown, *said), 1))
        return
    yield from said[:1]
    if said[1:]:
        yield "\\\n".join((f"**{prose(language.text(section.title))}**", *said[1:]))


def _card(finding: Finding, language: Language) -> str:
    card = cards.card(finding, language)
    run = f"{clipped(card.run, _PLACE)}: " if card.run else ""
    lines = [f"**{prose(run + clipped(card.action, _TITLE))}**"]
    if card.saves:
        lines[0] += f" {prose(card.saves)}"
    lines.append(code(clipped(card.fix, _TITLE)) if card.is_code else prose(clipped(card.fix, _TITLE)))
    for file, line in sarif.lines(finding)[:1]:
        lines[-1] += f" ({code(clipped(f'{file}:{line}', _PLACE))})"
    lines.append(prose(clipped(cards.seen(card), _SEEN)))
    return "\\\n   ".join(lines)


def verdict_of(difference: Difference, outcome: str, language: Language) -> str:
    """The verdict of a difference with an icon, both times, and whether they were predicted, as far as known."""
    icon = _OUTCOME_ICONS.get(difference.verdict.outcome, _MEASURED)
    change = step_difference.changed(difference)
    if change is None:
        return f"{icon} {outcome}"
    return f"{icon} {language.text(_VERDICT, outcome=outcome, change=language.say(change))}"


def of_difference(
    difference: Difference, statuses: Mapping[str, Text], language: Language, page_url: str | None = None
) -> Iterator[str]:
    """Blocks of Markdown on a difference: why the verdict, of what, both steps on one scale, and what to do next."""
    said = [] if difference.gate is None else [language.say(difference.gate.reason)]
    said += [_reason(difference, language)]
    said += [language.say(message) for message in (*_cause(difference), *run_difference.late_ranks(difference.run))]
    said += _fixed(difference, language)
    yield " ".join(map(prose, said))
    yield " \u00b7 ".join(_of_sides(difference, language, page_url))
    is_drawn = difference.step_time is not None and step_difference.is_of_means(difference)
    if strip := of_parts(difference.parts, language) if is_drawn else "":
        yield strip
    shown = [_next(change, statuses, language) for change in _first(difference.findings)]
    if shown:
        yield "\n".join(f"{number}. {text}" for number, text in enumerate(shown, 1))


def _reason(difference: Difference, language: Language) -> str:
    """Why the verdict; where that is a test of another statistic than the shown one, only what the test says."""
    reason = difference.verdict.reason
    is_tested = reason.id in _OF_TESTS and "p" in reason.params and step_difference.is_of_means(difference)
    return language.text(_BEYOND_NOISE, p=reason.params["p"]) if is_tested else language.say(reason)


def _of_sides(difference: Difference, language: Language, page_url: str | None) -> Iterator[str]:
    """Both files with their commits, the GPUs, torch, the numbers of steps, and the page."""
    base, head = difference.base, difference.head
    yield _ARROW.join(_named(side.name, side.commit) for side in (base, head))
    yield from map(escape, dict.fromkeys(clipped(name, _NAME) for name in (*base.devices, *head.devices)))
    versions = dict.fromkeys(side.torch_version for side in (base, head) if side.torch_version)
    if versions:
        yield escape(f"torch {_ARROW.join(clipped(version, _NAME) for version in versions)}")
    if base.steps:
        yield f"{escape(language.text(_STEPS, steps=base.steps))}{_ARROW}{head.steps}"
    if page_url is not None:
        yield link(language, page_url)


def _named(name: str, commit: str | None) -> str:
    """A file, and the commit of the program that it was recorded of."""
    shown = code(clipped(name, _NAME))
    return f"{shown} ({code(_short(commit))})" if commit else shown


def _short(commit: str) -> str:
    """A hash as git abbreviates it; names of branches as they are."""
    return commit[:_HASH] if re.fullmatch("[0-9a-fA-F]{20,64}", commit) else clipped(commit, _PLACE)


def _cause(difference: Difference) -> Iterator[Message]:
    """The part of the step that changed most, if there is more than noise."""
    if difference.attribution is not None and difference.verdict.outcome in ("faster", "slower"):
        yield difference.attribution


def _fixed(difference: Difference, language: Language) -> Iterator[str]:
    """What was fixed, with the change of its time."""
    fixed = [change for change in difference.findings if change.status == "fixed"][:FIRST]
    if fixed:
        yield language.text(_FIXED, titles=language.list(_with_change(change, language) for change in fixed))


def _with_change(change: FindingChange, language: Language) -> str:
    title = clipped(language.say(change.title), _TITLE)
    if change.base_ns is None or change.head_ns is None:
        return title
    time = language.quantity(change.head_ns - change.base_ns, "+plain_ns")
    return language.text(_CHANGED_BY, title=title, change=time)


def _first(changes: Sequence[FindingChange]) -> Sequence[FindingChange]:
    """The first findings of the head, without those that save nothing yet or only inform, unless there are no others.

    Where the sides cannot be compared, those of both.
    """
    there = [change for change in changes if change.status not in ("fixed", "base-only")]
    worth = [c for c in there if c.severity != "info" and c.predicted_wall_ns and round(c.predicted_wall_ns[1])]
    return (worth or there)[:FIRST]


def _next(change: FindingChange, statuses: Mapping[str, Text], language: Language) -> str:
    """A finding that is left: what to do, what that saves, how it begins, and what was seen."""
    lines = [f"**{prose(clipped(language.say(change.action or change.title), _TITLE))}**"]
    low, high = change.predicted_wall_ns or (0.0, 0.0)
    if round(high):
        lines[0] += f" {prose(language.text(_SAVES if round(low) else _MAY_SAVE, price=(low, None, high)))}"
    if line := cards.first_line(change.code and code_comments.translated(change.code, language)):
        lines.append(code(clipped(line, _TITLE)))
    elif change.advice is not None:
        lines.append(prose(clipped(first_sentence(language.say(change.advice)), _TITLE)))
    status = cards.word(dict(statuses), change.status, language)
    lines.append(prose(language.text(_OF_STATUS, status=status, title=_with_change(change, language))))
    return "\\\n   ".join(lines)


def _drawn(report: Report, language: Language) -> str:
    """A typical step as rows of blocks, with why the mean is another one; empty without a timeline."""
    timeline, slices = report.result("timeline", Timeline), report.result("slices", RecordedSlices)
    if timeline is None or not timeline.duration_ns:
        return ""
    times = slices.times[:1] if slices is not None else ()
    one = next((time for time in times if time.start_ns == timeline.start_ns), None)
    return of_step(timeline, language, one, overview.unlike_mean(report, timeline.duration_ns))


def of_step(timeline: Timeline, language: Language, one: SliceTime | None = None, why: Message | None = None) -> str:
    """A step as rows of blocks, one for the CPU and one for the GPU.

    Args:
        timeline: The step.
        language: The reader's language.
        one: The same step with the times in which the CPU waits; None if they are unknown.
        why: A sentence below it.
    """
    host = _cells(timeline, [lane for lane in timeline.lanes if lane.kind in ("host", "launches", "marks")], language)
    if one is not None and host:
        waits = strip_lanes.waiting_columns(one, _CELLS)
        host = "".join(_NONE if at in waits and cell == _FULL else cell for at, cell in enumerate(host))
    device = _cells(timeline, [lane for lane in timeline.lanes if lane.kind in ("device", "accelerator")], language)
    rows = [(language.text(label), row) for label, row in ((_HOST, host), (_DEVICE, device)) if row]
    block = timeline.duration_ns / _CELLS
    said = language.text(_STEP, step=clipped(timeline.step, 40), duration=timeline.duration_ns, block=block)
    lines = said if why is None else f"{said}\n{language.say(why)}"
    return _strip(rows, {_FULL: _WORKS, _NONE: _IDLE}, lines, language)


def _cells(timeline: Timeline, lanes: Sequence[Lane], language: Language) -> str:
    """What takes most of each block; of ranges that people set, only waiting for a loader counts. Empty for nothing."""
    cell = timeline.duration_ns / _CELLS
    sums = [Counter[str]() for _ in range(_CELLS)]
    for lane in lanes:
        for bar in waterfall.drawn(timeline, lane, language).bars:
            kind = "idle" if bar.tone == "waiting" else _OF_TONE.get(bar.tone, "full")
            if (bar.depth and kind == "full") or (lane.kind == "marks" and kind != "loader"):
                continue
            begin = bar.start_ns
            end = min(timeline.duration_ns, bar.start_ns + bar.duration_ns)
            for number in range(int(begin / cell), min(_CELLS, int(end / cell) + 1)):
                inside = min(end, (number + 1) * cell) - max(begin, number * cell)
                sums[number][kind] += round(max(0, inside))
    return "".join(_block(each, cell) for each in sums) if any(sums) else ""


def _block(times: Counter[str], cell: float) -> str:
    for kind, (block, _) in _BLOCKS.items():
        if times[kind] * 2 >= cell or times[kind] > times["full"]:
            return block if times[kind] * 4 >= cell else _NONE
    return _FULL if times["full"] * 2 >= cell else _NONE


def of_parts(parts: Sequence[ChangedPart], language: Language) -> str:
    """Two steps as rows of blocks on one scale; empty without known times."""
    base = [(part.id, part.base_ns or 0.0) for part in parts]
    head = [(part.id, part.head_ns or 0.0) for part in parts]
    longest = max(_whole(base), _whole(head))
    if not longest:
        return ""
    rows = [
        (language.text(_BEFORE), _row_of_blocks(base, longest, language)),
        (language.text(_AFTER), _row_of_blocks(head, longest, language)),
    ]
    return _strip(rows, {_FULL: _COMPUTES, _REST: _OTHER}, language.text(_SCALE, block=longest / _CELLS), language)


def _whole(parts: Iterable[tuple[str, float]]) -> float:
    return fsum(ns for _, ns in parts)


def _row_of_blocks(parts: Sequence[tuple[str, float]], longest: float, language: Language) -> str:
    """The parts of a step as blocks, those of one kind together, and its time."""
    glyphs = {"kernel": _FULL}
    for tone, kind in _OF_TONE.items():
        glyphs[tone], _ = _BLOCKS[kind]
    drawn = sorted((glyphs.get(id_, _REST), round(ns / longest * _CELLS)) for id_, ns in parts)
    blocks = "".join(glyph * count for glyph, count in drawn)
    return f"{blocks} {language.quantity(_whole(parts), 'plain_ns')}"


def _strip(rows: Sequence[tuple[str, str]], others: Mapping[str, Text], said: str, language: Language) -> str:
    """Rows of blocks with a legend, as a block of text that keeps its columns."""
    if not rows:
        return ""
    known = {**dict(_BLOCKS.values()), **others}
    shown = "".join(row for _, row in rows)
    legend = "  ".join(f"{block} {language.text(text)}" for block, text in known.items() if block in shown)
    width = max(_width(label) for label, _ in rows)
    lines = (f"{label}{' ' * (width - _width(label))} {row}" for label, row in rows)
    return "\n".join(("```text", *lines, "", legend, said, "```"))


def _width(label: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in label)
