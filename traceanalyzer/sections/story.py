"""Several measurements of one program as a story: what was slow and why, what changed, the result, and what is next.

A document with several runs tells it of its first and last run, and a difference of both sides, in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.analyzers.tables.throughput import PrintedThroughput
from traceanalyzer.report.compared import Interval, agreement, together
from traceanalyzer.report.difference import PART_LABELS, Difference, FindingChange, Side
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Headline, Report
from traceanalyzer.report.names import clean, clipped, word
from traceanalyzer.report.section import Section, SectionTable, Topic
from traceanalyzer.sections import several_runs
from traceanalyzer.sections.columns import Column, table

_BEFORE = Text("story-before", "Where it began")
_CHANGED = Text("story-changed", "What was changed")
_RESULT = Text("story-result", "What came of it")
_NEXT = Text("story-next", "What is next")
_SHORT = Text("story-short", "In short")

_BASELINE = Text("story-baseline", "At first a step took {step:brief_ns}.", "of a training, before a change")
_TOTALS = Text(
    "story-totals",
    "At first a step took {step:brief_ns}; {steps:count} steps cost {host:brief_ns} of CPU time, waiting for the GPU "
    "included, and {device:brief_ns} of GPU time.",
    "of a training, before a change",
)
_MAIN = Text(
    "story-cause", "What cost most: \u201c{title}\u201d. {summary}", "title is that of a finding; summary explains it"
)
_HEADED = Text("story-headed", "The later measurement is headed \u201c{title}\u201d.", "title is a heading of a text")
_SHORTER = Text(
    "story-shorter", "This became shorter in each step: {parts}.", "parts is a list, such as x from 9 to 1 ms"
)
_LONGER = Text("story-longer", "This became longer in each step: {parts}.", "parts is a list, such as x from 1 to 9 ms")
_PART = Text(
    "story-part", "{part} from {before:brief_ns} to {after:brief_ns}", "part is an operator or a part of a step"
)
_FASTER = Text(
    "story-faster",
    "After the change a step is {times:factor} times faster: {before:brief_ns} became {after:brief_ns}.",
)
_SLOWER = Text(
    "story-slower",
    "After the change a step takes {times:factor} times as long: {before:brief_ns} became {after:brief_ns}.",
)
_UNSURE = Text("story-unsure", "A step took {before:brief_ns} before and {after:brief_ns} after the change. {reason}")
_PROMISED = {
    "as-predicted": Text(
        "story-as-predicted",
        "The first measurement promised {expected:estimate} less per step. It became {got:brief_ns} less: as "
        "predicted.",
    ),
    "less": Text(
        "story-less",
        "The first measurement promised {expected:estimate} less per step. It became only {got:brief_ns} less.",
    ),
    "more": Text(
        "story-more",
        "The first measurement promised {expected:estimate} less per step. It became {got:brief_ns} less, so something "
        "else became faster, too.",
    ),
    "cannot-tell": Text(
        "story-about",
        "The first measurement promised {expected:estimate} less per step. It became {got:brief_ns} less; the "
        "difference is within the noise of the steps.",
    ),
}
_FIXED = Text("story-fixed", "What the first measurement showed is gone: {titles}.", "titles of findings")
_QUOTED = Text("story-quoted", "\u201c{title}\u201d", "title of a finding, in a list")
_ADVISED = Text("story-advised", "{title}. {advice}", "title and advice of a finding")
_NOTHING = Text("story-nothing", "Nothing else stands out in the last measurement.")
_OUTSIDE = Text(
    "story-outside",
    "At {rate:factor} samples per second, a step of {batch:count} samples takes {whole:brief_ns}, and the profile "
    "accounts for {profiled:brief_ns} of it. So most of the time now lies outside of the model: loading data, or the "
    "profiler itself.",
    "batch is the number of samples in a batch",
)
_RATES = Text("story-rates", "Further on the text reports, without tables: {rates}.", "rates as the text has them")
_STAGE = Text(
    "story-stage",
    "After \u201c{title}\u201d the text gives {rate:number} samples per second.",
    "title is a heading of a text",
)
_STAGE_OF = Text(
    "story-stage-of",
    "After \u201c{title}\u201d ({settings}) the text gives {rate:number} samples per second.",
    "title is a heading of a text; settings is a list of what it says was changed",
)
_IN_ALL = Text(
    "story-in-all",
    "From the first to the last measurement of the text, {before:factor} became {after:number} samples per second: "
    "{times:factor} times as many.",
)
_CLOSING = Text(
    "story-closing",
    "A step takes {after:brief_ns} instead of {before:brief_ns} ({share:+share}). {limit}",
    "limit is a sentence on what bounds the step now; may be empty",
)
_WAS_IS = Text("story-was-is", "The limit used to be {one}; now it is {two}.", "resources, such as the GPU")
_STILL = Text("story-still", "The limit is still {two}.", "a resource, such as the GPU")
_LIMITS = {
    "input": Text("story-by-loader", "the DataLoader", "what limits the speed"),
    "host": Text("story-by-host", "the CPU", "what limits the speed"),
    "gpu-compute": Text("story-by-compute", "the arithmetic of the GPU", "what limits the speed"),
    "gpu-memory": Text("story-by-memory", "the memory of the GPU", "what limits the speed"),
    "communication": Text("story-by-communication", "communication", "what limits the speed"),
}
_FIGURE = Text("story-figure", "Figure", "head of a column: what a number is")
_ROWS = {
    "step": Text("story-row-step", "Step"),
    "rate": Text("story-row-rate", "Samples per second"),
    "host": Text("story-row-host", "CPU in all"),
    "device": Text("story-row-device", "GPU in all"),
    "host_step": Text("story-row-host-step", "CPU per step"),
    "device_step": Text("story-row-device-step", "GPU per step"),
}
BASE, HEAD = Text("story-base", "Before"), Text("story-head", "After")
_BETWEEN = Text("story-between", "Measurement {number:count}", "head of a column; a number counted from 1")
_MOST = 3
"""Causes, parts and pieces of advice that are told (own choice: a story is no list)."""
_LEAST_PART = 0.01
"""Least share of the first step that a part must change to be told (own choice)."""
_OUTSIDE_FACTOR = 2
"""A step of so many times the profiled time was for the most part not profiled, as in the analysis of rates."""
_TITLE = 120


@dataclass(frozen=True)
class Chapter:
    """One measurement of the program."""

    step_ns: float
    steps: int
    host_ns: float | None
    """Per step, as of the device."""
    device_ns: float | None
    samples_per_s: float | None
    headline: Message | None
    bound: str | None = None
    has_totals: bool = True
    """Whether it is a printed table, of which people know the totals."""


class Story(msgspec.Struct, frozen=True):
    """What there is to tell."""

    chapters: tuple[Chapter, ...]
    cause: tuple[Message, Message | None] | None
    """Title and summary of what cost most."""
    headed: str | None
    parts: tuple[tuple[str | Text | Message, float, float], ...]
    """What changed: name, and time per step before and after, the largest change first."""
    expected: tuple[Interval, float, str] | None
    """Predicted and measured gain in ns, and whether they agree."""
    fixed: tuple[Message, ...]
    advice: tuple[tuple[Message, Message], ...]
    """Titles and advice of what is left."""
    unsure: Message | None = None
    """Why it is unknown whether anything changed; None if it is known."""
    more: tuple[Message, ...] = ()
    """Further sentences on what is next."""
    in_all: Message | None = None
    """What came of all stages, those without tables included."""


def build(report: Report, top: int) -> Iterator[Section]:
    """The story of a document with several runs of one program; none of other reports."""
    del top
    story = of_document(report)
    if story is not None:
        yield from sections_of(story)


def of_difference(difference: Difference) -> Story | None:
    """The story of two sides; None where a step is unknown, and for programs that have nothing in common."""
    chapters = _sides(difference)
    if not chapters or difference.comparability.is_unrelated:
        return None
    changed = [part for part in difference.parts if part.change_ns is not None]
    changed.sort(key=lambda part: -abs(part.change_ns or 0.0))
    fixed = [change for change in difference.findings if change.status == "fixed"]
    prediction, verdict = difference.prediction, difference.verdict
    return Story(
        chapters,
        (fixed[0].title, fixed[0].summary) if fixed else None,
        _heading(difference.head),
        tuple((word(PART_LABELS, part.id), part.base_ns or 0.0, part.head_ns or 0.0) for part in changed),
        (prediction.predicted_ns, prediction.measured_ns, prediction.agreement) if prediction else None,
        tuple(change.title for change in fixed),
        tuple(_left(difference.findings)),
        verdict.reason if verdict.outcome in ("inconclusive", "no-change") else None,
    )


def _sides(difference: Difference) -> tuple[Chapter, ...]:
    """Both sides of a difference; empty where one has no view."""
    base, head = difference.base_view, difference.head_view
    if base is None or head is None:
        return ()
    times = difference.step_time
    if times is not None:
        steps = (times.base.mean_ns, times.head.mean_ns)
    else:
        steps = (_printed(difference, "base"), _printed(difference, "head"))
    return tuple(
        Chapter(
            step, side.steps, view.host_ns, view.device_ns, view.samples_per_s, view.headline, view.bound, times is None
        )
        for step, side, view in zip(steps, (difference.base, difference.head), (base, head), strict=True)
    )


def _left(changes: Iterable[FindingChange]) -> Iterator[tuple[Message, Message]]:
    """Titles and advice of the findings that are left, but not of those that only inform."""
    for change in changes:
        if change.advice is not None and change.severity != "info":
            yield change.title, change.advice


def _printed(difference: Difference, side: str) -> float:
    return max((getattr(p, f"{side}_ns") or 0.0 for p in difference.parts if p.id in ("host", "device")), default=0.0)


def _heading(side: Side) -> str | None:
    return clipped(side.title, _TITLE) if side.title else None


def of_document(report: Report) -> Story | None:
    """The story of a document; None without several runs of one program."""
    runs = several_runs.of_one_program(report)
    if not runs:
        return None
    headlines = {headline.run: headline for headline in report.headlines}
    rates = report.result("printed_throughput", tuple[PrintedThroughput, ...]) or ()
    chapters = tuple(_chapter(run, headlines.get(run.id), rates) for run in runs)
    settled = [report.findings[number] for number in sorted(several_runs.settled(report))]
    fixed = [finding for finding in settled if finding.run == runs[0].id]
    last = [finding for finding in report.findings if finding.run == runs[-1].id and finding.severity != "info"]
    return Story(
        chapters,
        next(((finding.title, finding.summary) for finding in fixed), None),
        clipped(runs[-1].title, _TITLE) if runs[-1].title else None,
        tuple(_operators(runs[0], runs[-1])),
        _expected(fixed, headlines.get(runs[0].id), chapters),
        tuple(finding.title for finding in fixed),
        tuple((finding.title, finding.advice) for finding in last),
        more=tuple(_rest(runs[-1], chapters[-1], rates)),
        in_all=_in_all(chapters, rates),
    )


def _chapter(run: PrintedRun, headline: Headline | None, rates: Sequence[PrintedThroughput]) -> Chapter:
    samples_per_s = [rate.per_s for rate in rates if rate.run == run.id and rate.unit == "samples"]
    return Chapter(
        run.wall_estimate_ns_per_step or 0.0,
        run.steps,
        None if run.cpu_ns is None else run.cpu_ns / run.steps,
        None if run.device_ns is None else run.device_ns / run.steps,
        max(samples_per_s, default=None),
        headline.message if headline else None,
        headline.bound if headline else None,
    )


def _operators(base: PrintedRun, head: PrintedRun) -> Iterator[tuple[str, float, float]]:
    """Operators that both runs print, the one whose device time per step changed most first."""
    after = {row.name: row for row in head.operators if not row.name_truncated}
    both = [(row, after[row.name]) for row in base.operators if row.name in after]
    times = [
        (f"`{clean(one.name)}`", _each(one.device_self_ns, base.steps), _each(two.device_self_ns, head.steps))
        for one, two in both
    ]
    yield from sorted(times, key=lambda row: -abs(row[2] - row[1]))


def _each(total_ns: int | None, steps: int) -> float:
    return (total_ns or 0) / steps


def _expected(
    fixed: Sequence[Finding], headline: Headline | None, chapters: Sequence[Chapter]
) -> tuple[Interval, float, str] | None:
    """What the fixed findings predicted together, and what came of it."""
    savings = [(f.saving.resource, f.saving.wall_ns_per_step) for f in fixed if f.saving is not None]
    before, got = chapters[0].step_ns, chapters[0].step_ns - chapters[-1].step_ns
    predicted = together(savings, headline.resources if headline else None, before)
    return None if predicted is None else (predicted, got, agreement(predicted, got, None))


def _rest(run: PrintedRun, last: Chapter, rates: Sequence[PrintedThroughput]) -> Iterator[Message]:
    """What the text says beyond the tables: time outside of the profile, and rates of later measurements."""
    if last.samples_per_s and run.batch_size:
        whole = run.batch_size / last.samples_per_s * 1e9
        if whole > _OUTSIDE_FACTOR * last.step_ns:
            yield _OUTSIDE(rate=last.samples_per_s, batch=run.batch_size, whole=whole, profiled=last.step_ns)
    stages = _stages(rates) if last.samples_per_s else ()
    for stage in stages[:_MOST]:
        said = {"title": clipped(stage.heading or "", _TITLE), "rate": stage.per_s}
        settings = "; ".join(map(clean, stage.settings))
        yield _STAGE_OF(**said, settings=clipped(settings, 2 * _TITLE)) if settings else _STAGE(**said)
    later = [clean(rate.words) for rate in rates if rate.run is None and rate not in stages][:_MOST]
    if later:
        yield _RATES(rates="; ".join(clipped(words, _TITLE) for words in later))


def _stages(rates: Sequence[PrintedThroughput]) -> tuple[PrintedThroughput, ...]:
    """Later measurements without tables: samples per second under a heading of their own, further down."""
    measured = max((rate.line for rate in rates if rate.run is not None), default=0)
    samples = [rate for rate in rates if rate.unit == "samples" and rate.run is None and rate.heading]
    return tuple(rate for rate in samples if rate.line > measured)


def _in_all(chapters: Sequence[Chapter], rates: Sequence[PrintedThroughput]) -> Message | None:
    """From which rate to which all stages lead; None without stages."""
    stages, first = _stages(rates), chapters[0].samples_per_s
    after = stages[-1].per_s if stages else 0.0
    return _IN_ALL(before=first, after=after, times=after / first) if first and after else None


def sections_of(story: Story) -> Iterator[Section]:
    """The story in sections, in the order in which people tell it."""
    for name, title, messages in (
        ("before", _BEFORE, _beginning(story)),
        ("changed", _CHANGED, _changes(story)),
        ("result", _RESULT, _outcome(story)),
        ("next", _NEXT, _outlook(story)),
        ("short", _SHORT, _close(story)),
    ):
        said = tuple(messages)
        tables = (_figures(story.chapters),) if name == "result" else ()
        if said:
            yield Section(f"story-{name}", title, said, tables=tables, topic=Topic.STORY, is_essential=True)


def _beginning(story: Story) -> Iterator[Message]:
    first = story.chapters[0]
    if first.has_totals and first.host_ns is not None and first.device_ns is not None:
        host, device = first.host_ns * first.steps, first.device_ns * first.steps
        yield _TOTALS(step=first.step_ns, steps=first.steps, host=host, device=device)
    else:
        yield _BASELINE(step=first.step_ns)
    if first.headline is not None:
        yield first.headline
    if story.cause is not None:
        title, summary = story.cause
        yield _MAIN(title=title, summary=summary or "")


def _changes(story: Story) -> Iterator[Message]:
    if story.headed:
        yield _HEADED(title=story.headed)
    least = _LEAST_PART * story.chapters[0].step_ns
    for text, sign in ((_SHORTER, 1), (_LONGER, -1)):
        shown = [part for part in story.parts if sign * (part[1] - part[2]) >= least][:_MOST]
        if shown:
            yield text(parts=[_PART(part=_name(name), before=one, after=two) for name, one, two in shown])


def _name(name: str | Text | Message) -> str | Message:
    return name() if isinstance(name, Text) else name


def _outcome(story: Story) -> Iterator[Message]:
    before, after = story.chapters[0].step_ns, story.chapters[-1].step_ns
    if story.unsure is not None or not before or not after:
        yield _UNSURE(before=before, after=after, reason=story.unsure or "")
    else:
        text, times = (_FASTER, before / after) if after <= before else (_SLOWER, after / before)
        yield text(times=times, before=before, after=after)
    if story.expected is not None and story.expected[2] in _PROMISED:
        (low, high), got, agreed = story.expected
        yield _PROMISED[agreed](expected=(low, None, high), got=got)
    if story.fixed:
        yield _FIXED(titles=[_QUOTED(title=title) for title in story.fixed])


def _figures(chapters: Sequence[Chapter]) -> SectionTable:
    """The figures that people know, a row each; what no measurement has is left out."""
    rows = _measured(chapters)
    columns = [Column(_FIGURE, "", itemgetter(0))]
    columns += [Column(title, "ns", itemgetter(row)) for row, title in enumerate(_chapter_titles(len(chapters)), 1)]
    figures = table("story", tuple(columns), [(_ROWS[key](), *values) for key, _, values in rows])
    return replace(figures, row_units=tuple(unit for _, unit, _ in rows))


def _measured(chapters: Sequence[Chapter]) -> list[tuple[str, str, list[float | None]]]:
    """Key, unit and values of each figure that some measurement has; of programs that print totals, totals."""
    rows: list[tuple[str, str, list[float | None]]] = [
        ("step", "ns", [chapter.step_ns for chapter in chapters]),
        ("rate", "factor", [chapter.samples_per_s for chapter in chapters]),
    ]
    are_totals = all(chapter.has_totals for chapter in chapters)
    for name in ("host", "device"):
        values: list[float | None] = []
        for chapter in chapters:
            ns = getattr(chapter, f"{name}_ns")
            steps = chapter.steps if are_totals else 1
            values.append(None if ns is None else ns * steps)
        rows.append((name if are_totals else f"{name}_step", "ns", values))
    return [row for row in rows if any(value is not None for value in row[2])]


def _chapter_titles(count: int) -> list[Message]:
    between = (_BETWEEN(number=number) for number in range(2, count))
    return [BASE(), *between, HEAD()][:count]


def _outlook(story: Story) -> Iterator[Message]:
    last = story.chapters[-1]
    if last.headline is not None:
        yield plain(last.headline)
    yield from (_ADVISED(title=title, advice=advice) for title, advice in story.advice[:_MOST])
    if not story.advice:
        yield _NOTHING()
    yield from story.more


def plain(headline: Message) -> Message:
    """A headline without the comparison with other runs, which the story tells itself."""
    inner = None if headline.id.startswith("headline-cut") else headline.params.get("headline")
    if isinstance(inner, dict):  # of a saved report
        inner = msgspec.convert(inner, Message)
    return plain(inner) if isinstance(inner, Message) else headline


def _close(story: Story) -> Iterator[Message]:
    first, last = story.chapters[0], story.chapters[-1]
    if story.unsure is not None or not first.step_ns:
        return
    one, two = (_LIMITS.get(chapter.bound or "") for chapter in (first, last))
    limit: Message | str = ""
    if one is not None and two is not None:
        limit = _STILL(two=two()) if one is two else _WAS_IS(one=one(), two=two())
    share = last.step_ns / first.step_ns - 1
    if story.in_all is not None:
        yield story.in_all
    yield _CLOSING(before=first.step_ns, after=last.step_ns, share=share, limit=limit)
