"""The analyses of printed tables. A table has no timeline: what needs one is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.analyzers.tables import listing, recording, runs
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Loss

_NO_TIMELINE = Text(
    "skip-no-timeline",
    "a printed table has sums but no timeline; export the trace (prof.export_chrome_trace) and report on that",
)

NEEDS_TIMELINE = ("step_breakdown", "gpu", "kernels_by_operator")

RESULTS = {"tables": tuple[listing.PrintedTable, ...], "runs": tuple[runs.PrintedRun, ...]}
"""Types of the results of a document by key; `recording`, of the first run, is that of a trace."""


_HIDDEN = 0.01
"""Share of time in rows that are not printed that is worth a warning (own choice: below, no ranking changes)."""


def run(document: TableDocument) -> tuple[dict[str, Any], dict[str, Message]]:
    """Run every analysis that tables allow.

    Returns:
        The results by key, and for each analysis that needs more the reason.
    """
    views = runs.group(document)
    found = tuple(runs.analyze(view) for view in views)
    results: dict[str, Any] = {"tables": listing.analyze(document, views), "runs": found}
    if found:
        results["recording"] = recording.analyze(views[0], found[0])
    return results, {key: _NO_TIMELINE() for key in NEEDS_TIMELINE}


def doubts(results: Mapping[str, Any]) -> tuple[Loss, ...]:
    """Count what lowers the confidence of a document's figures."""
    found = []
    for run in results["runs"]:
        hidden = max(run.cpu_hidden_share or 0, run.device_hidden_share or 0)
        if hidden > _HIDDEN:
            found.append(Loss("q-table-truncated", 1, {"run": run.id, "share": hidden}))
        if run.annotations_in_total:
            found.append(Loss("q-gpu-annotation-in-total", 1, {"run": run.id}))
        if run.steps_from is None:
            found.append(Loss("q-no-steps-in-table", 1, {"run": run.id}))
    return tuple(found)
