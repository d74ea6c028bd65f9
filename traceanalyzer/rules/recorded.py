"""Facts of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Resources, TraceSummary
from traceanalyzer.rules.facts import Facts


def facts(summary: TraceSummary, results: Mapping[str, Any], reasons: Mapping[str, Message]) -> tuple[Facts, ...]:
    """The one run of a trace; none if it has no step."""
    found = results.get("resources")
    if not isinstance(found, StepResources):
        return ()
    resources = Resources(found.step_ns, found.gpu_ns, found.host_ns, found.loader_ns, found.communication_ns)
    return (Facts(resources, found.steps, summary=summary, results=results, reasons=reasons),)
