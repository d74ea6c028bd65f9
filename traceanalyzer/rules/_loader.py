"""Estimates what loading in worker processes is worth."""

from __future__ import annotations

from traceanalyzer.analyzers.step_breakdown import Average
from traceanalyzer.report.message import Message
from traceanalyzer.rules.change import TimeSaved

CONTENTION = 0.2
"""Share of a saving that workers may cost (own choice; 12 % was lost in the one measured pair: ResNet-50, 0 and 4
workers)."""

FEW_WORKERS = 2
"""Number of workers to advise if the number of cores is unknown; the training itself needs cores, too (own choice)."""


def code_without_gpu() -> str:
    """The code without pinning, for programs that copy nothing to a device."""
    return f"DataLoader(dataset, num_workers={FEW_WORKERS}, persistent_workers=True)"


def with_workers(average: Average, basis: Message, share: float = 1.0) -> TimeSaved:
    """At most the exposed waiting; at least what one worker running beside the rest of the step saves, less a fifth.

    Args:
        average: Means over the steps.
        basis: How it was estimated.
        share: Share of the waiting that goes away, if there are several loaders.
    """
    exposed, full = average.dataloader_ns * share, average.dataloader_full_ns * share
    rest = average.duration_ns - exposed
    one_worker = max(0.0, average.duration_ns - max(rest, full))
    low = (1 - CONTENTION) * min(exposed, one_worker)
    return TimeSaved("loader", (low, exposed), basis, (low, exposed), {"loader": exposed})
