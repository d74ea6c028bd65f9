"""The top of the page about a difference: the answer, both steps as bars and as lanes, parts, and findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from traceanalyzer.formats import before_after
from traceanalyzer.formats.before_after import GRID, SideStep, Stack, UnitOfTimes, css
from traceanalyzer.formats.difference_sections import FINDINGS, OUTCOMES, PART, STATUS, price
from traceanalyzer.formats.html.summary import prose
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.run_difference import late_ranks
from traceanalyzer.formats.step_difference import TEST, changed, messages
from traceanalyzer.report.difference import PART_LABELS, Difference, FindingChange
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean, shorten, word
from traceanalyzer.sections import columns
from traceanalyzer.sections.story import BASE, HEAD

_STEP = Text("html-diff-step", "What a step consists of")
_ONE_STEP = Text("html-diff-one-step", "One step of each side, on one scale")
_PRINTED = Text("html-diff-printed", "Profiled time per step")
_CLEAR = {
    True: Text("html-diff-clear", "more than noise"),
    False: Text("html-diff-noise", "within noise"),
    None: Text("html-diff-noise-unknown", "noise unknown"),
}
_HOW = Text(
    "html-diff-how",
    "More than noise: a rank-sum test over the steps, at 5 % for all parts together. Unknown with fewer than 5 steps "
    "on a side.",
)
_NOISE_UNKNOWN = Text(
    "html-diff-noise-unknown-for-all",
    "Whether these changes are more than noise is unknown: a side has fewer than 5 steps.",
)
_GROUPS = {
    "fixed": Text("html-diff-fixed", "Fixed: {count:count}", "findings that are gone"),
    "base-only": Text("html-diff-base-only", "Only before: {count:count}", "findings that are gone, maybe not fixed"),
    "new": Text("html-diff-new", "New: {count:count}", "findings that were not there before"),
    "head-only": Text(
        "html-diff-head-only", "Only after: {count:count}", "findings that were not there, maybe not new"
    ),
    "kept": Text("html-diff-kept", "Still there: {count:count}", "findings of both sides"),
    "both": Text("html-diff-both", "Both: {count:count}", "findings of both sides, where they cannot be compared"),
}
_PREDICTED = Text("html-diff-predicted", "Predicted: {price}", "price is a time, and where it was found")
_PICTURE = Text(
    "html-diff-picture-typical",
    "Before, a typical step takes {base}, and the GPU works for {base_gpu} of it; after, {head} and {head_gpu}.",
    "times",
)
_PICTURE_TIMES = Text("html-diff-picture-step", "Before, a typical step takes {base}; after, {head}.", "times")
_MOST = 40
"""Findings of a group that are shown."""
_PROSE = 600


@dataclass(frozen=True)
class PartRow:
    """One part of the step on both sides, and its change."""

    tone: str
    label: str
    base: str
    head: str
    change: str
    sense: str
    test: str


@dataclass(frozen=True)
class ShownFinding:
    """A finding of a group."""

    severity: str
    title: Markup
    status: str
    times: str
    """What it is about before and after, and its change; empty if unknown."""
    sense: str
    predicted: str
    advice: Markup


@dataclass(frozen=True)
class Opening:
    """All content above the tables."""

    tab: str
    """Title of the browser's tab: the answer in a few words."""
    outcome: str
    outcome_word: str
    sentence: Markup
    others: tuple[Markup, ...]
    title: str
    stacks: tuple[Stack, ...]
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[PartRow, ...]
    heads: tuple[str, ...]
    how: str | None
    steps_title: str
    steps: tuple[SideStep, ...]
    step_ticks: tuple[tuple[float, str], ...]
    tones: tuple[tuple[str, str], ...]
    picture: str
    findings: tuple[tuple[str, tuple[ShownFinding, ...]], ...]
    findings_title: str
    prediction: Markup | None
    grid: int = GRID
    sections: frozenset[str] = frozenset({"verdict", "parts", "findings"})
    """Ids of sections whose content it has."""


def opening(difference: Difference, language: Language) -> Opening:
    """Prepare the top of the page."""
    outcome = language.text(word(OUTCOMES, difference.verdict.outcome))
    answer = _answer(difference, outcome, language)
    prediction = difference.prediction
    title, how = _PRINTED, None
    heads = [PART, BASE, HEAD, columns.CHANGE.title]
    if difference.step_time is not None:  # else the parts are of times that a table prints
        title = _STEP
        is_known = any(part.clear is not None for part in difference.parts)
        how = language.text(_HOW if is_known else _NOISE_UNKNOWN)
        if is_known:
            heads.append(TEST)
    ticks, step_ticks, tones = _axes(difference, language)
    return Opening(
        tab=answer.tab,
        outcome=difference.verdict.outcome,
        outcome_word=outcome,
        sentence=answer.sentence,
        others=answer.others,
        title=language.text(title),
        stacks=before_after.stacks(difference, language),
        ticks=ticks,
        rows=tuple(_rows(difference, language)),
        heads=tuple(map(language.text, heads)),
        how=how,
        steps_title=language.text(_ONE_STEP),
        steps=before_after.steps(difference, language),
        step_ticks=step_ticks,
        tones=tones,
        picture=_picture(difference, language),
        findings=tuple(_findings(difference, language)),
        findings_title=language.text(FINDINGS),
        prediction=prose(language.say(prediction.message)) if prediction else None,
    )


class _Answer(NamedTuple):
    """What is said above the pictures."""

    tab: str
    sentence: Markup
    others: tuple[Markup, ...]


def _answer(difference: Difference, outcome: str, language: Language) -> _Answer:
    """The change in short and everything said; where the sides cannot be compared, the reason is the first sentence."""
    said = [language.say(message) for message in (*messages(difference), *late_ranks(difference.run))]
    if changed(difference) is not None:  # which is the first message
        return _Answer(f"{outcome}: {said[0]}", prose(said[0]), tuple(map(prose, said[1:])))
    is_comparable = difference.comparability.obstacle is None
    short = before_after.in_short(difference, language) if is_comparable else ""
    if short:
        return _Answer(f"{outcome}: {short}", Markup.escape(short), tuple(map(prose, said)))
    return _Answer(said[0], prose(said[0]), tuple(map(prose, said[1:])))


class _Axes(NamedTuple):
    """Ticks of both pictures, and the legend of the second one."""

    ticks: tuple[tuple[float, str], ...]
    step_ticks: tuple[tuple[float, str], ...]
    tones: tuple[tuple[str, str], ...]


def _axes(difference: Difference, language: Language) -> _Axes:
    longest_step = max((ns for ns in before_after.step_ns(difference) if ns), default=0.0)
    strips = before_after.strips(difference)
    longest_strip = max((strip.duration_ns for strip in strips), default=None)
    drawn = {band.tone for strip in strips for lane in strip.lanes for band in lane.bands}
    return _Axes(
        ticks=before_after.ticks(longest_step, language) if longest_step else (),
        step_ticks=() if longest_strip is None else before_after.ticks(longest_strip, language),
        tones=tuple((css(tone), language.text(text)) for tone, text in before_after.TONES.items() if tone in drawn),
    )


def _rows(difference: Difference, language: Language) -> Iterator[PartRow]:
    for part in difference.parts:
        change = language.quantity(part.change_ns, "+ns")
        yield PartRow(
            tone=css(before_after.tone(part.id)),
            label=language.text(word(PART_LABELS, part.id)),
            base=language.quantity(part.base_ns, "ns"),
            head=language.quantity(part.head_ns, "ns"),
            change=change.replace("-", before_after.MINUS, 1),
            sense=before_after.sense(part, difference),
            test=language.text(_CLEAR[part.clear]) if difference.step_time is not None else "",
        )


def _picture(difference: Difference, language: Language) -> str:
    """The same as the pictures, in words."""
    base, head = before_after.step_ns(difference)
    if base is None or head is None:
        return ""
    gpus = [view.device_ns if view is not None else None for view in (difference.base_view, difference.head_view)]
    shown = [before_after.alone(ns or 0.0, language) for ns in (base, head, *gpus)]
    if None in gpus:
        return language.text(_PICTURE_TIMES, base=shown[0], head=shown[1])
    return language.text(_PICTURE, base=shown[0], head=shown[1], base_gpu=shown[2], head_gpu=shown[3])


def _findings(difference: Difference, language: Language) -> Iterator[tuple[str, tuple[ShownFinding, ...]]]:
    for status, title in _GROUPS.items():
        group = [change for change in difference.findings if change.status == status]
        if group:
            shown = tuple(_finding(change, language) for change in group[:_MOST])
            yield language.text(title, count=len(group)), shown


def _finding(change: FindingChange, language: Language) -> ShownFinding:
    base, head = change.base_ns, change.head_ns
    times = sense = predicted = ""
    if base is not None and head is not None:
        signed = UnitOfTimes.of((head - base,), language).signed(head - base)
        times = f"{before_after.change(base, head, language)} ({signed})"
        sense = {"fixed": "better", "new": "worse"}.get(change.status, "")
    if change.predicted_wall_ns is not None and round(change.predicted_wall_ns[1]) > 0:
        predicted = language.text(_PREDICTED, price=language.quantity(price(change), ""))
    return ShownFinding(
        severity=clean(change.severity),
        title=prose(language.say(change.title)),
        status=language.text(word(STATUS, change.status)),
        times=times,
        sense=sense,
        predicted=predicted,
        advice=prose(shorten(language.say(change.advice), _PROSE)) if change.advice is not None else Markup(),
    )
