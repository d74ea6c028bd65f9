"""Makes facts of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.recording import Recording
from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Resources
from traceanalyzer.report.source import TraceSummary
from traceanalyzer.rules.facts import Facts

_UNRELIABLE = 0.4
"""Share of idle time without explanation from which on the explanations are chance (own choice)."""


def facts(
    summary: TraceSummary, results: Mapping[str, Any], reasons: Mapping[str, Message], gpu: Gpu | None = None
) -> tuple[Facts, ...]:
    """The one run of a trace, by its typical step; none if it has no step of any length."""
    recording = results.get("recording")
    if not isinstance(recording, Recording) or recording.typical is None:
        return ()
    found = recording.typical.resources
    host = None if is_partial(found, results.get("idle")) else found.host_ns
    resources = Resources(found.step_ns, found.gpu_ns, host, found.loader_ns, found.communication_ns)
    return (Facts(resources, len(recording.steps), summary=summary, gpu=gpu, results=results, reasons=reasons),)


def is_partial(resources: StepResources, idle: object) -> bool:
    """Whether much idle time has no explanation, so that events are missing and host time is unknown."""
    devices = idle.devices if isinstance(idle, Idle) else ()
    own = [device for device in devices if device.device == resources.device]
    unknown = sum(cause.time_ns for device in own for cause in device.causes if cause.cause in ("unknown", "pending"))
    return unknown > _UNRELIABLE * sum(device.idle_ns for device in own)
