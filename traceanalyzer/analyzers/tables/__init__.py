"""The analyses of printed tables. A table has no timeline: what needs one is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def run(
    document: TableDocument, views: Sequence[runs.RunView]
) -> tuple[dict[str, tuple[msgspec.Struct, ...]], dict[str, Message]]:
    """Run every analysis that tables allow.

    Args:
        document: The tables.
        views: The same tables by run, as `runs.group` joins them.

    Returns:
        The results by key, and for each analysis that needs more the reason.
    """
    results: dict[str, tuple[msgspec.Struct, ...]] = {
        "tables": listing.analyze(document, views),
        "runs": tuple(runs.analyze(view) for view in views),
    }
    return results, {key: _NO_TIMELINE() for key in NEEDS_TIMELINE}


def doubts(results: Mapping[str, tuple[msgspec.Struct, ...]]) -> tuple[Loss, ...]:
    """Count what lowers the confidence of a document's figures."""
    found = []
    for run in results["runs"]:
        if not isinstance(run, runs.PrintedRun):
            continue
        hidden = max(run.cpu_hidden_share or 0, run.device_hidden_share or 0)
        if hidden > _HIDDEN:
            found.append(Loss("q-table-truncated", 1, {"run": run.id, "share": hidden}))
        if run.annotations_in_total:
            found.append(Loss("q-gpu-annotation-in-total", 1, {"run": run.id}))
        if run.steps_from is None:
            found.append(Loss("q-no-steps-in-table", 1, {"run": run.id}))
    return tuple(found)
