"""Makes facts of a run of several ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Resources, TraceSummary
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.facts.of_trace import is_partial
from traceanalyzer.rules.engine.selection import Chosen
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.resources import StepResources

_TAG = "communication"
_NO_COLLECTIVES = Text("skip-no-shared-collectives", "no collective was found on several ranks")
_ALONE = Text("skip-in-each-rank", "this rule looks at the trace of each rank, not at all ranks together")


def facts(summary: TraceSummary, results: Mapping[str, Any]) -> tuple[Facts, ...]:
    """Facts of the typical step of all ranks; of the mean step where a rank's is not known; none without steps.

    Communication is only what links do: waiting for other ranks takes nothing of them.
    """
    mean, ranks, recording = results.get("resources"), results.get("ranks"), results.get("recording")
    if not isinstance(mean, StepResources) or not isinstance(ranks, Ranks):
        return ()
    typical = recording.typical if isinstance(recording, Recording) else None
    found = mean if typical is None else typical.resources
    is_cpu = found.gpu_ns is None
    communication = found.exposed_communication_ns if is_cpu else found.communication_ns
    if communication is not None:
        communication = max(0.0, communication - ((ranks.exposed_wait_ns if is_cpu else ranks.wait_ns) or 0.0))
    host = None if typical is not None and is_partial(typical) else found.host_ns
    resources = Resources(found.step_ns, found.gpu_ns, host, found.loader_ns, communication)
    reasons = {"communication": _NO_COLLECTIVES(), "passes": _ALONE()}
    return (Facts(resources, mean.steps, summary=summary, results=results, reasons=reasons),)


def applicable(chosen: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Rules about communication; all others judge each rank by itself."""
    return tuple(entry for entry in chosen if _TAG in entry.rule.tags)
