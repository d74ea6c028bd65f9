"""Notes about how far the figures can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.comparison.measurement import Measurement
from traceanalyzer.report.difference import Ranking, StepTime
from traceanalyzer.report.message import Message, Text

_ONE_RUN = Text(
    "diff-one-capture",
    "Each side is one recording. Repeat recordings (a folder for each side) to judge run-to-run variation.",
)
_ALIKE = Text(
    "diff-autocorrelated",
    "Neighbouring steps take similar time (a slow phase, or a warm-up), so intervals are {factor:number} times as "
    "wide as for independent steps.",
)
_OUTLIERS = Text(
    "diff-outliers",
    "{base:count} and {head:count} steps take more than 1.5 times the median. The mean includes what they cost; the "
    "median does not.",
)
_WHOLE = Text(
    "diff-whole-trace",
    "No steps are marked, so each trace counts as one step. Call prof.step() after each iteration.",
)
_UNPRINTED = Text(
    "diff-unprinted",
    "The tables do not print all rows (row_limit). A row that is missing on one side counts as gone only if it would "
    "have been printed there.",
)
_CUT_NAMES = Text(
    "diff-cut-names",
    "{count:count} rows have shortened names that several rows share, so they are not matched.",
    one="{count:count} row has a shortened name that several rows share, so it is not matched.",
)
_OUTLIER = 1.5


def collect(
    base: Measurement, head: Measurement, times: StepTime | None, rankings: tuple[Ranking, ...]
) -> tuple[Message, ...]:
    """Collect all notes that apply to a comparison."""
    return (*_of_steps(base, head, times), *_of_tables(base, head, rankings))


def _of_steps(base: Measurement, head: Measurement, times: StepTime | None) -> Iterator[Message]:
    if times is None:
        return
    if "whole-trace" in (base.side.steps_from, head.side.steps_from):
        yield _WHOLE()
    outliers = [_outliers(side) for side in (base, head)]
    if any(outliers):
        yield _OUTLIERS(base=outliers[0], head=outliers[1])
    if times.inflation > 1:
        yield _ALIKE(factor=times.inflation)
    if min(len(base.runs), len(head.runs)) == 1 and min(times.base.count, times.head.count) > 1:
        yield _ONE_RUN()


def _outliers(side: Measurement) -> int:
    durations = sorted(step.duration_ns for step in side.steps)
    middle = len(durations) // 2
    median = (durations[middle] + durations[~middle]) / 2
    return sum(duration > _OUTLIER * median for duration in durations)


def _of_tables(base: Measurement, head: Measurement, rankings: tuple[Ranking, ...]) -> Iterator[Message]:
    if any(side.rankings[key].hidden_ns for side in (base, head) for key in side.rankings):
        yield _UNPRINTED()
    ambiguous = sum(ranking.ambiguous for ranking in rankings)
    if ambiguous:
        yield _CUT_NAMES(count=ambiguous)
