"""Which rates are in the text, to which run do they belong, and do they agree with its tables?

A rate belongs to the run of the tables next to it under the same heading; if these are of different runs, it belongs to
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.trace.document import PrintedRate, TableDocument
from traceanalyzer.trace.model import Loss

_SAMPLES = frozenset({"samples", "sequences", "images", "frames"})
_STEPS = frozenset({"steps", "iterations", "batches"})
_OUTSIDE = 2
"""A step of more than so many times the profiled time was for the most part not profiled."""


class PrintedThroughput(msgspec.Struct, frozen=True):
    """A rate that the text gives; lines that give the same of the same run count once."""

    run: str | None
    """Id of the run that it belongs to; null where the text does not show it."""
    words: str
    """The line as printed, without markup around it."""
    printed: str
    """The part of the line that is the rate."""
    per_s: float
    """The number, per second."""
    unit: str
    """What is counted: `samples`, `sequences`, `images`, `frames`, `tokens`, `iterations`, `steps`, `batches` or
    `requests`."""
    line: int
    """Line of the document, counted from 1, that gives it first."""
    times: int
    """Number of lines that give it."""
    heading: str | None = None
    """The heading that it stands under; null without one."""
    settings: tuple[str, ...] = ()
    """The items of lists between this heading and it, as printed."""


def analyze(document: TableDocument, runs: Iterable[PrintedRun]) -> tuple[PrintedThroughput, ...]:
    """The rates of a document, in the order of their first lines."""
    run_of = {position: run.id for run in runs for position in run.tables}
    same: dict[tuple[str | None, float, str], list[PrintedRate]] = {}
    for rate in document.rates:
        near = {run_of.get(place) for place in (rate.after_table, rate.before_table) if place is not None}
        run = near.pop() if len(near) == 1 else None
        same.setdefault((run, rate.per_s, rate.unit), []).append(rate)
    return tuple(
        PrintedThroughput(
            run, first.words, first.printed, value, unit, first.line, len(rates), first.heading, first.settings
        )
        for (run, value, unit), rates in same.items()
        for first in rates[:1]
    )


def doubts(runs: Sequence[PrintedRun], rates: Sequence[PrintedThroughput]) -> Iterator[Loss]:
    """Runs whose tables hold less than half of the time that a step takes by the printed rate, the fastest one."""
    for run in runs:
        own = [rate for rate in rates if rate.run == run.id and rate.per_s > 0]
        if run.wall_estimate_ns_per_step is not None and run.steps_from is not None:
            yield from (_doubt(run, own, _SAMPLES, run.batch_size) or _doubt(run, own, _STEPS, None) or ())


def _doubt(
    run: PrintedRun, rates: Sequence[PrintedThroughput], units: frozenset[str], batch: int | None
) -> tuple[Loss] | None:
    """The doubt that rates of some units raise; a step has one sample at least."""
    profiled = run.wall_estimate_ns_per_step
    fastest = max((rate for rate in rates if rate.unit in units), key=lambda rate: rate.per_s, default=None)
    if fastest is None or profiled is None:
        return None
    step = (batch or 1) * 1e9 / fastest.per_s
    if step <= _OUTSIDE * profiled:
        return None
    params = {"run": run.id, "printed": fastest.printed, "step": step, "profiled": profiled}
    if batch is not None:
        return (Loss("q-rate-of-samples", 1, params | {"batch": batch}),)
    return (Loss("q-rate-of-steps" if units is _STEPS else "q-rate-of-any-batch", 1, params),)
