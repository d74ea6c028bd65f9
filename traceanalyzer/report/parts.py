"""What the parts of a program are called."""

from __future__ import annotations

from traceanalyzer.report.message import Text

KINDS = {
    "loader": Text("program-part-loader", "waiting for data"),
    "forward": Text("program-part-forward", "forward"),
    "backward": Text("program-part-backward", "backward"),
    "update": Text("program-part-update", "update"),
    "communication": Text("program-part-communication", "communication"),
    "evaluation": Text("program-part-evaluation", "evaluation"),
    "checkpoint": Text("program-part-checkpoint", "checkpoint"),
    "function": Text("program-part-function", "function", "of a program"),
    "line": Text("program-part-line", "line", "of a program"),
    "call": Text("program-part-call", "call", "of the device's runtime"),
}
"""Names by the ids of `knowledge.program_parts`."""
