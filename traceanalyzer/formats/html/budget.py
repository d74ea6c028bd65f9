"""The budget of a step as a waterfall: its duration today, what each fix leaves of it, and the floor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import fsum

from traceanalyzer.formats.language import Language, scale
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


def build(headline: Headline, combined: Combined, language: Language) -> StepBudget | None:
    """The waterfall; None if the duration of a step is unknown."""
    recorded = headline.resources.step_ns if headline.resources else 0.0
    step = recorded if combined.step_ns is None else combined.step_ns
    if step <= 0:
        return None
    in_unit = scale(language, step, "ns")
    digits = max(0, 3 - len(str(int(step / in_unit.factor))))

    def told(left: float, concept: str) -> str:
        return language.marked(in_unit.text(left * step, digits), left * step, concept)

    # bounds instead of a most likely value: first what is saved at least, and beside it the rest of the most
    sure, possible = map(list, zip(*(_shares(fix, step) for fix in combined.fixes), strict=True))
    short = max(0.0, combined.wall_ns_per_step[0] / step - fsum(sure))  # what only the best fix by itself is sure of
    sure[0], possible[0] = sure[0] + short, max(0.0, possible[0] - short)
    ends = [1.0]
    for share in sure:
        ends.append(max(0.0, ends[-1] - share))
    name, concept = (TODAY, "html-step-length.step") if combined.step_ns is None else (WITHOUT_PROFILER, "step-alone")
    low, high = combined.wall_ns_per_step
    point = combined.point_ns_per_step
    rest = (max(0.0, step - high), None if point is None else max(0.0, step - point), max(0.0, step - low))
    least, likely, most = (None if each is None else in_unit.number(each, digits) for each in rest)
    between = language.interval(least or "", likely, most or "", lambda number: f"{number} {in_unit.label}")
    floor = 1 - (low if point is None else point) / step
    fixes = (
        BudgetRow(None, told(after, f"left-after-{number}"), *_bar(after, before, more))
        for number, ((before, after), more) in enumerate(zip(pairwise(ends), possible, strict=True), 1)
    )
    return StepBudget(
        language.text(LEFT),
        BudgetRow(language.text(name), told(1.0, concept), *_bar(0, 1)),
        tuple(fixes),
        BudgetRow(language.text(_FLOOR), language.marked(between, rest, "floor"), *_bar(0, floor)),
    )


def _shares(fix: Relief, step: float) -> tuple[float, float]:
    """What a fix most likely, or at least, takes from the step, and what it may take in addition."""
    low, high = fix.wall_ns_per_step
    if fix.point_ns_per_step is not None:
        return max(0.0, fix.point_ns_per_step) / step, 0.0
    return max(0.0, low) / step, max(0.0, high - low) / step


def _bar(begin: float, end: float, more: float = 0.0) -> tuple[str, str, str]:
    begin, end = max(0.0, min(1.0, begin)), max(0.0, min(1.0, end))
    return f"{100 * begin:.2f}", f"{100 * max(0.0, end - begin):.2f}", f"{100 * min(begin, more):.2f}"
