"""The causal model: predicts how a change of the program affects its step time, from the dependencies in a recording.

`model` builds and replays it, `edits` describes changes, `replay_error` and `critical_path` are its analyses.
"""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.simulation import critical_path, replay_error, window
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.trace.tree import NO_PARENT

_STEP_LENGTH = Need(
    Text("skip-no-step-length", "the trace has no step longer than 0"),
    lambda context: bool(context.cached(window.find_windows)),
)
_LAUNCHES = Need(
    Text("skip-path-no-launches", "the trace does not show which calls launched the device's work"),
    lambda context: not len(context.trace.device) or (context.links.launch != NO_PARENT).any(),
)
ANALYSES: tuple[Analysis, ...] = (
    Analysis(1000, "replay", replay_error.Replay, replay_error.analyze, needs=(_STEP_LENGTH,)),
    Analysis(1010, "critical_path", critical_path.CriticalPath, critical_path.analyze, needs=(_STEP_LENGTH, _LAUNCHES)),
)
"""The analyses of the model, in the order of the report."""
