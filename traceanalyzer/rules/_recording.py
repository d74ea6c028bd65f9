"""Recordings that do not show a program's usual work, which several rules must recognize before they judge."""

from __future__ import annotations

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Facts, Missing

_MOSTLY = 0.5

_BEGAN_LATE = Text(
    "rule-earlier-work",
    "the recording began in the middle of the device's work, and most idle time lies before its first recorded event",
)


def need_usual_idle_time(facts: Facts) -> None:
    """Refuse to judge idle time that may come from how the recording was made.

    Raises:
        Missing: The device most likely worked while it seems to be idle.
    """
    found, busy = facts.find("launches", LaunchFigures), facts.resources.gpu_ns
    idle = (facts.step_ns - (busy or 0.0)) * facts.steps
    if found is not None and found.earlier_work_ns and found.earlier_work_ns >= _MOSTLY * idle:
        raise Missing(_BEGAN_LATE())
