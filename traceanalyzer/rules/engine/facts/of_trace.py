"""Makes facts of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Resources, TraceSummary
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.recording import Recording, TypicalStep
from traceanalyzer.structure.resources import StepResources

_UNRELIABLE = 0.4
"""Share of idle time without explanation from which on the explanations are chance (own choice)."""


def facts(
    summary: TraceSummary,
    results: Mapping[str, Any],
    reasons: Mapping[str, Message],
    gpu: Gpu | None = None,
    model: Model | None = None,
) -> tuple[Facts, ...]:
    """The one run of a trace, by its typical step; none if it has no step of any length."""
    recording = results.get("recording")
    if not isinstance(recording, Recording) or recording.typical is None:
        return ()
    found = recording.typical.resources
    host = None if is_partial(recording.typical) or _waits_unseen(results, found) else found.host_ns
    communication = found.exposed_communication_ns if found.gpu_ns is None else found.communication_ns
    resources = Resources(found.step_ns, found.gpu_ns, host, found.loader_ns, communication)
    steps = len(recording.steps)
    return (Facts(resources, steps, summary=summary, gpu=gpu, results=results, reasons=reasons, model=model),)


def _waits_unseen(results: Mapping[str, Any], found: StepResources) -> bool:
    """Whether devices other than GPUs worked; the host may have waited for them unnoticed."""
    others = results.get("accelerators")
    return found.gpu_ns is None and isinstance(others, Accelerators) and bool(others.devices)


def is_partial(typical: TypicalStep) -> bool:
    """Whether much idle time has no explanation, so that events are missing and host time is unknown.

    Launched work that waits although nothing recorded delays it (`pending`) counts, because the event that it waits for
    is missing. If a sampling profiler kept only half of a training's events, the host would otherwise be blamed for
    delays by other ranks.
    """
    unknown = sum(row.ns_per_step for row in typical.idle if row.cause in ("unknown", "pending"))
    return unknown > _UNRELIABLE * sum(row.ns_per_step for row in typical.idle)
