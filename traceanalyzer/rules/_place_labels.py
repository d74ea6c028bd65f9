"""What places of findings are called that have no name in the trace."""

from __future__ import annotations

from traceanalyzer.report.message import Text

FORWARD = Text("place-forward", "forward pass", note="a place of a finding, before its time")
BACKWARD = Text("place-backward", "backward pass", note="a place of a finding, before its time")
EPOCH = Text("place-epoch", "start of an epoch", note="a place of a finding, before its time")
