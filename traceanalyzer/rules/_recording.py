"""What a recording holds instead of a program's usual work: what several rules must know before they judge."""

from __future__ import annotations

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Text
from traceanalyzer.rules.facts import Facts, Missing

_MANY = 100
"""Own choice: fewer launches without an event on the device may be chance."""
_HARDLY_ANY = 0.1
"""Device events over launch calls (own choice): a capture runs nothing, and little runs around it."""
_MOSTLY = 0.5

_IS_CAPTURE = Text(
    "rule-graph-capture", "the recording contains the capture of graphs, and kernels do not run while they are captured"
)
_BEGAN_LATE = Text(
    "rule-earlier-work",
    "the recording began in the middle of the device's work, and most idle time lies before its first recorded event",
)


def is_capture(facts: Facts) -> bool:
    """Whether graphs are captured, none is replayed, and hardly anything runs on a device."""
    found = facts.find("launches", LaunchFigures)
    capture = found.capture if found else None
    if capture is None or capture.replays or capture.launch_calls < _MANY:
        return False
    return capture.device_events < _HARDLY_ANY * capture.launch_calls


def need_usual_idle_time(facts: Facts) -> None:
    """Refuse to judge idle time that has to do with how it was recorded.

    Raises:
        Missing: Graphs are captured, or the device most likely worked while it seems idle.
    """
    if is_capture(facts):
        raise Missing(_IS_CAPTURE())
    found, busy = facts.find("launches", LaunchFigures), facts.resources.gpu_ns
    idle = (facts.step_ns - (busy or 0.0)) * facts.steps
    if found is not None and found.earlier_work_ns and found.earlier_work_ns >= _MOSTLY * idle:
        raise Missing(_BEGAN_LATE())
