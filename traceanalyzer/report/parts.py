"""What the parts of a program are called."""

from __future__ import annotations

from traceanalyzer.report.message import Text

KINDS = {
    "loader": Text("part-loader", "waiting for data"),
    "forward": Text("part-forward", "forward"),
    "backward": Text("part-backward", "backward"),
    "update": Text("part-update", "update"),
    "communication": Text("part-communication", "communication"),
    "evaluation": Text("part-evaluation", "evaluation"),
    "checkpoint": Text("part-checkpoint", "checkpoint"),
    "function": Text("part-function", "function", "of a program"),
    "line": Text("part-line", "line", "of a program"),
    "call": Text("part-call", "call", "of the device's runtime"),
}
"""Names by the ids of `knowledge.program_parts`."""
