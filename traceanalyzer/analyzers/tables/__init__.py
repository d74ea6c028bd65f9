"""The analyses of printed tables. A table has no timeline: what needs one is skipped, with the reason.

Every table is listed as printed. A rate in the text belongs to the run of the tables next to it under the same heading;
if these are of different runs, it belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from traceanalyzer.analyzers.tables import grouping, recording, runs
from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.kinds import classify
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.document import PrintedRate, ProfilerTable, TableDocument, TableRow
from traceanalyzer.trace.model import Loss

_NO_TIMELINE = Text(
    "skip-no-timeline",
    "a printed table has sums but no timeline; export the trace (prof.export_chrome_trace) and report on that",
)
_ALWAYS = ("line", "name_truncated", "shapes_truncated")
_SAMPLES = frozenset({"samples", "sequences", "images", "frames"})
_STEPS = frozenset({"steps", "iterations", "batches"})
_OUTSIDE = 2
"""A step of more than so many times the profiled time was for the most part not profiled."""
_HIDDEN = 0.01
"""Share of time in rows that are not printed that is worth a warning (own choice: below, no ranking changes)."""


class PrintedTotals(msgspec.Struct, frozen=True):
    """The lines below a table; null where they are not printed."""

    self_cpu_ns: int | None
    """Printed total of the self CPU time in ns; null where it is not printed."""
    self_device_ns: int | None
    """Printed total of the self device time in ns; null where it is not printed."""


class PrintedTable(msgspec.Struct, frozen=True):
    """One table of the document."""

    title: str | None
    """Nearest heading above the table, without its decoration; null if there is none."""
    line: int
    """Line of the table's header in the document, counted from 1."""
    columns: tuple[str, ...]
    """Ids of the known columns in the order in which they are printed."""
    device: str | None
    """Device as printed, such as CUDA, XPU or NPU; null if none is printed."""
    rows: tuple[dict[str, Any], ...]
    """Rows in the printed order: for each its kind, its line, and a value for each column; null is not printed or not
    readable."""
    totals: PrintedTotals
    """The totals that are printed below the table."""
    complete: bool
    """Whether the end of the table was seen; torch may have cut rows all the same (row_limit)."""
    run: str
    """Id of the run that the table belongs to, as in the analysis `runs`."""


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


NEEDS_TIMELINE = ("step_breakdown", "gpu", "kernels_by_operator")
RESULTS = {
    "tables": tuple[PrintedTable, ...],
    "runs": tuple[runs.PrintedRun, ...],
    "printed_throughput": tuple[PrintedThroughput, ...],
}
"""Types of the results of a document by key; `recording`, of the first run, is that of a trace."""


def run(document: TableDocument, views: Sequence[grouping.RunView]) -> tuple[dict[str, Any], dict[str, Message]]:
    """Run every analysis that tables allow.

    Args:
        document: The tables.
        views: The same tables by run, as `grouping.group` joins them.

    Returns:
        The results by key, and for each analysis that needs more the reason.
    """
    found = runs.analyze_all(tuple(views))
    results: dict[str, Any] = {
        "tables": list_tables(document, views),
        "runs": found,
        "printed_throughput": printed_throughput(document, found),
    }
    if found:
        results["recording"] = recording.analyze(views[0], found[0])
    return results, {key: _NO_TIMELINE() for key in NEEDS_TIMELINE}


def list_tables(document: TableDocument, views: Sequence[RunView]) -> tuple[PrintedTable, ...]:
    """All tables in the order of the document."""
    run_of = {id(table): view.id for view in views for table in view.tables}
    return tuple(_table(table, run_of[id(table)]) for table in document.tables)


def _table(table: ProfilerTable, run: str) -> PrintedTable:
    return PrintedTable(
        title=table.title,
        line=table.line,
        columns=table.columns,
        device=table.device,
        rows=tuple(
            {"kind": kind.value, **_values(row, table.columns)}
            for row, kind in zip(table.rows, classify(table.rows), strict=True)
        ),
        totals=PrintedTotals(table.totals.self_cpu_ns, table.totals.self_device_ns),
        complete=table.complete,
        run=run,
    )


def _values(row: TableRow, columns: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in (*_ALWAYS, *columns)}


def printed_throughput(document: TableDocument, runs: Iterable[PrintedRun]) -> tuple[PrintedThroughput, ...]:
    """The rates of a document, in the order of their first lines."""
    run_of = {position: run.id for run in runs for position in run.tables}
    same: dict[tuple[str | None, float, str], list[PrintedRate]] = {}
    for rate in document.rates:
        near = {run_of.get(place) for place in (rate.after_table, rate.before_table) if place is not None}
        run = near.pop() if len(near) == 1 else None
        same.setdefault((run, rate.per_s, rate.unit), []).append(rate)
    return tuple(
        PrintedThroughput(run, rates[0].words, rates[0].printed, value, unit, rates[0].line, len(rates))
        for (run, value, unit), rates in same.items()
    )


def doubts(results: Mapping[str, Any]) -> tuple[Loss, ...]:
    """Count what lowers the confidence of a document's figures."""
    printed: tuple[runs.PrintedRun, ...] = results["runs"]
    hidden = {run.id: share for run in printed if (share := _hidden_share(run)) > _HIDDEN}
    in_total = [run.id for run in printed if run.annotations_in_total]
    stepless = [run.id for run in printed if run.steps_from is None]
    calculated = [run.id for run in printed if run.totals_from_shares]
    spans = [run.id for run in printed if run.has_event_spans]
    wrong = [run.id for run in printed if run.total_cannot_be]
    without = [run.id for run in printed if _has_no_times_of_its_own(run)]
    every = len(printed)
    return (
        *_once("q-table-truncated", "q-tables-truncated", every, [*hidden], share=max(hidden.values(), default=0)),
        *_once("q-total-from-shares", "q-totals-from-shares", every, calculated),
        *_once("q-total-cannot-be", "q-totals-cannot-be", every, wrong),
        *_once("q-no-self-times", "q-no-self-times-in-tables", every, without),
        *_once("q-event-spans-in-table", "q-event-spans-in-tables", every, spans),
        *_once("q-gpu-annotation-in-total", "q-gpu-annotation-in-totals", every, in_total),
        *_once("q-no-steps-in-table", "q-no-steps-in-tables", every, stepless),
        *throughput_doubts(printed, results["printed_throughput"]),
    )


def _has_no_times_of_its_own(run: runs.PrintedRun) -> bool:
    """Whether its rows count nested operators several times, and no total is printed."""
    return run.cpu_ns is None and run.device_ns is None and not run.total_cannot_be


def _hidden_share(run: runs.PrintedRun) -> float:
    return max(run.cpu_hidden_share or 0, run.device_hidden_share or 0)


def _once(one: str, several: str, every: int, ids: list[str], **params: float) -> Iterator[Loss]:
    """A doubt about one run, or the same about several of all."""
    if len(ids) == 1:
        yield Loss(one, 1, {"run": ids[0], **params})
    elif ids:
        yield Loss(several, len(ids), {"all": every, **params})


def throughput_doubts(runs: Sequence[PrintedRun], rates: Sequence[PrintedThroughput]) -> Iterator[Loss]:
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
