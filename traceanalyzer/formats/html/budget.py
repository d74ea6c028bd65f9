"""The budget of a step as a waterfall: its duration today, what each fix leaves of it, and the floor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from traceanalyzer.formats.language import Language, Scale, scale
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Combined, Headline, Relief

TODAY = Text("budget-today", "Today")
_FLOOR = Text("budget-floor", "With all fixes")
LEFT = Text("budget-left", "The step then takes", "above a column of times; beside each is a fix of the program")
WITHOUT_PROFILER = Text("budget-without-profiler", "Today, without the profiler")


@dataclass(frozen=True)
class BudgetRow:
    """One row: the step after one more fix."""

    label: str | None
    """Words for it; None for the title of the fix."""
    left: str
    """What is left of the step."""
    begin: str
    """Where the bar begins, in percent of the step today."""
    sure: str
    """Width of what goes most likely, or at least."""
    possible: str
    """Width of what may go in addition."""


@dataclass(frozen=True)
class StepBudget:
    """The waterfall of one run."""

    head: str
    """Words for what is left of the step, above the column."""
    today: BudgetRow
    fixes: tuple[BudgetRow, ...]
    floor: BudgetRow


class _Times(NamedTuple):
    """How the times of a waterfall are shown."""

    step_ns: float
    """The step today, which is the whole width."""
    unit: Scale
    digits: int
    language: Language

    def shown(self, left: float, concept: str) -> str:
        """A share of the step as a time."""
        ns = left * self.step_ns
        return self.language.marked(self.unit.text(ns, self.digits), ns, concept)


class _Taken(NamedTuple):
    """The shares of the step that the fixes take, one after another."""

    sure: list[float]
    """What each takes most likely, or at least."""
    possible: list[float]
    """What each may take in addition."""


def build(headline: Headline, combined: Combined, language: Language) -> StepBudget | None:
    """The waterfall; None if the duration of a step is unknown."""
    name = WITHOUT_PROFILER
    concept = "step-alone"
    step = combined.step_ns
    if step is None:
        name = TODAY
        concept = "html-step-length.step"
        step = headline.resources.step_ns if headline.resources else 0.0
    if step <= 0:
        return None
    unit = scale(language, step, "ns")
    digits = max(0, 3 - len(str(int(step / unit.factor))))
    shown = _Times(step, unit, digits, language)
    return StepBudget(
        head=language.text(LEFT),
        today=BudgetRow(language.text(name), shown.shown(1.0, concept), *_bar(0, 1)),
        fixes=tuple(_fixes(_taken(combined, step), shown)),
        floor=_floor(combined, shown),
    )


def _taken(combined: Combined, step: float) -> _Taken:
    """What the fixes take; without a most likely value first what is saved at least, beside it the rest of the most."""
    shares = [_shares(fix, step) for fix in combined.fixes]
    sure = [least for least, _ in shares]
    possible = [more for _, more in shares]
    best_alone = combined.wall_ns_per_step[0] / step
    short = max(0.0, best_alone - fsum(sure))  # what only the best fix by itself is sure of
    sure[0] += short
    possible[0] = max(0.0, possible[0] - short)
    return _Taken(sure, possible)


def _fixes(taken: _Taken, shown: _Times) -> Iterator[BudgetRow]:
    """A row for each fix: its bar ends where the one of the fix before begins."""
    before = 1.0
    for number, (sure, possible) in enumerate(zip(taken.sure, taken.possible, strict=True), 1):
        after = max(0.0, before - sure)
        yield BudgetRow(None, shown.shown(after, f"left-after-{number}"), *_bar(after, before, possible))
        before = after


def _floor(combined: Combined, shown: _Times) -> BudgetRow:
    """The row of the step with all fixes: an interval, and a bar to its most likely value or upper end."""
    step = shown.step_ns
    low, high = combined.wall_ns_per_step
    point = combined.point_ns_per_step
    least_left = max(0.0, step - high)
    likely_left = None if point is None else max(0.0, step - point)
    most_left = max(0.0, step - low)
    interval = shown.language.interval(
        shown.unit.number(least_left, shown.digits),
        None if likely_left is None else shown.unit.number(likely_left, shown.digits),
        shown.unit.number(most_left, shown.digits),
        lambda number: f"{number} {shown.unit.label}",
    )
    marked = shown.language.marked(interval, (least_left, likely_left, most_left), "floor")
    end = 1 - (low if point is None else point) / step
    return BudgetRow(shown.language.text(_FLOOR), marked, *_bar(0, end))


def _shares(fix: Relief, step: float) -> tuple[float, float]:
    """What a fix most likely, or at least, takes from the step, and what it may take in addition."""
    low, high = fix.wall_ns_per_step
    if fix.point_ns_per_step is not None:
        return max(0.0, fix.point_ns_per_step) / step, 0.0
    return max(0.0, low) / step, max(0.0, high - low) / step


def _bar(begin: float, end: float, more: float = 0.0) -> tuple[str, str, str]:
    """Where a bar begins, its width, and the width of what may go in addition, in percent."""
    begin = max(0.0, min(1.0, begin))
    end = max(0.0, min(1.0, end))
    width = max(0.0, end - begin)
    return f"{100 * begin:.2f}", f"{100 * width:.2f}", f"{100 * min(begin, more):.2f}"
