"""The causal model: predicts how a change of the program affects its step time, from the dependencies in a recording.

`model` builds and replays it, `edits` describes changes, `replay_error` and `critical_path` are its analyses.
"""

from __future__ import annotations

from traceanalyzer.analyzers import Analyzer
from traceanalyzer.report.message import Message, Text
from traceanalyzer.simulation import critical_path, replay_error, window
from traceanalyzer.structure.context import Context

_NO_LENGTH = Text("skip-no-step-length", "the trace has no step longer than 0")


def missing(context: Context) -> Message | None:
    """The reason why there is no model, or None."""
    return None if context.once(window.find_windows) else _NO_LENGTH()


ANALYZERS: tuple[Analyzer, ...] = (
    Analyzer("replay", replay_error.Replay, replay_error.analyze, missing),
    Analyzer("critical_path", critical_path.CriticalPath, critical_path.analyze, missing),
)
"""The analyses of the model, in the order of the report."""
