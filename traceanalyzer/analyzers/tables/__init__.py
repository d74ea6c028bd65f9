"""The analyses of printed tables. A table has no timeline: what needs one is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from traceanalyzer.analyzers.tables import listing, runs
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Loss

_NO_TIMELINE = Text(
    "skip-no-timeline",
    "a printed table has sums but no timeline; export the trace (prof.export_chrome_trace) and report on that",
)

NEEDS_TIMELINE = ("step_breakdown", "gpu", "kernels_by_operator")

RESULTS = {"tables": tuple[listing.PrintedTable, ...], "runs": tuple[runs.PrintedRun, ...]}
"""Types of the results of a document by key."""


_HIDDEN = 0.01
"""Share of time in rows that are not printed that is worth a warning (own choice: below, no ranking changes)."""


def run(document: TableDocument) -> tuple[dict[str, tuple[msgspec.Struct, ...]], dict[str, Message]]:
    """Run every analysis that tables allow.

    Returns:
        The results by key, and for each analysis that needs more the reason.
    """
    views = runs.group(document)
    results: dict[str, tuple[msgspec.Struct, ...]] = {
        "tables": listing.analyze(document, views),
        "runs": runs.analyze_all(views),
    }
    return results, {key: _NO_TIMELINE() for key in NEEDS_TIMELINE}


def doubts(results: Mapping[str, tuple[msgspec.Struct, ...]]) -> tuple[Loss, ...]:
    """Count what lowers the confidence of a document's figures."""
    printed = [run for run in results["runs"] if isinstance(run, runs.PrintedRun)]
    hidden = {run.id: share for run in printed if (share := _hidden_share(run)) > _HIDDEN}
    in_total = [run.id for run in printed if run.annotations_in_total]
    stepless = [run.id for run in printed if run.steps_from is None]
    every = len(printed)
    return (
        *_once("q-table-truncated", "q-tables-truncated", every, [*hidden], share=max(hidden.values(), default=0)),
        *_once("q-gpu-annotation-in-total", "q-gpu-annotation-in-totals", every, in_total),
        *_once("q-no-steps-in-table", "q-no-steps-in-tables", every, stepless),
    )


def _hidden_share(run: runs.PrintedRun) -> float:
    return max(run.cpu_hidden_share or 0, run.device_hidden_share or 0)


def _once(one: str, several: str, every: int, ids: list[str], **params: float) -> Iterator[Loss]:
    """A doubt about one run, or the same about several of all."""
    if len(ids) == 1:
        yield Loss(one, 1, {"run": ids[0], **params})
    elif ids:
        yield Loss(several, len(ids), {"all": every, **params})
