"""The analyses of printed tables. A table has no timeline: what needs one is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traceanalyzer.analyzers.tables import grouping, listing, recording, runs, throughput
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Loss

_NO_TIMELINE = Text(
    "skip-no-timeline",
    "a printed table has sums but no timeline; export the trace (prof.export_chrome_trace) and report on that",
)

NEEDS_TIMELINE = ("step_breakdown", "gpu", "kernels_by_operator")

RESULTS = {
    "tables": tuple[listing.PrintedTable, ...],
    "runs": tuple[runs.PrintedRun, ...],
    "printed_throughput": tuple[throughput.PrintedThroughput, ...],
}
"""Types of the results of a document by key; `recording`, of the first run, is that of a trace."""


_HIDDEN = 0.01
"""Share of time in rows that are not printed that is worth a warning (own choice: below, no ranking changes)."""


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
        "tables": listing.analyze(document, views),
        "runs": found,
        "printed_throughput": throughput.analyze(document, found),
    }
    if found:
        results["recording"] = recording.analyze(views[0], found[0])
    return results, {key: _NO_TIMELINE() for key in NEEDS_TIMELINE}


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
        *throughput.doubts(printed, results["printed_throughput"]),
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
