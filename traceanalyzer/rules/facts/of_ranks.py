"""Makes facts of a run of several ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.report.model import Resources
from traceanalyzer.report.source import TraceSummary
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.facts.of_trace import is_partial
from traceanalyzer.rules.selection import Chosen

_TAG = "communication"


def facts(summary: TraceSummary, results: Mapping[str, Any]) -> tuple[Facts, ...]:
    """Facts of the mean step of all ranks; none if no rank has a step.

    Communication is only what links do: waiting for other ranks takes nothing of them.
    """
    found, ranks = results.get("resources"), results.get("ranks")
    if not isinstance(found, StepResources) or not isinstance(ranks, Ranks):
        return ()
    communication = found.communication_ns
    if communication is not None:
        communication = max(0.0, communication - (ranks.wait_ns or 0.0))
    host = None if is_partial(found, results.get("idle")) else found.host_ns
    resources = Resources(found.step_ns, found.gpu_ns, host, found.loader_ns, communication)
    return (Facts(resources, found.steps, summary=summary, results=results),)


def applicable(chosen: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Rules about communication; all others judge each rank by itself."""
    return tuple(entry for entry in chosen if _TAG in entry.rule.tags)
