"""Which calls launch graphs, and does the trace record the capture of graphs?"""

from __future__ import annotations

import re
from functools import partial

import msgspec

from traceanalyzer.knowledge import marks
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import Bool

_CAPTURE = re.compile(r"^(cuda|cu|hip|musa)StreamBeginCapture")
_INSTANTIATE = re.compile(r"^(cuda|cu|hip|musa)GraphInstantiate")
_LAUNCH = re.compile(r"^(cuda|cu|hip|musa)\w{0,20}Launch\w{0,20}Kernel")
_MANY = 100
"""Own choice: fewer launches without an event on the device may be chance."""
_HARDLY_ANY = 0.1
"""Device events over launch calls (own choice): a capture runs nothing, and little runs around it."""


class GraphCapture(msgspec.Struct, frozen=True):
    """Calls that record a graph instead of running anything on a device."""

    captures: int
    """Number of captures that were begun on a stream."""
    launch_calls: int
    """Number of calls in the trace that launch a kernel; those within a capture start none."""
    device_events: int
    """Number of kernels, copies and fills that ran on a device."""
    replays: int
    """Number of launches of whole graphs."""

    @property
    def is_most(self) -> bool:
        """Whether the recording is mostly a capture: no graph is replayed, and hardly any launch starts work."""
        many = not self.replays and self.launch_calls >= _MANY
        return many and self.device_events < _HARDLY_ANY * self.launch_calls


def graph_calls(context: Context) -> Bool:
    """Which rows of the launch table launch a captured graph."""
    launches = context.trace.launches
    found: Bool = context.trace.names.where(marks.is_graph_launch)[launches.name]
    return found


def graph_capture(context: Context) -> GraphCapture | None:
    """Figures about the capture of graphs; None if the trace captures none."""
    return context.once(_graph_capture)


def _graph_capture(context: Context) -> GraphCapture | None:
    names, called = context.trace.names, context.trace.launches.name

    def calls(pattern: re.Pattern[str]) -> int:
        return int(names.where(partial(_is_call, pattern))[called].sum())

    begun = calls(_CAPTURE) or calls(_INSTANTIATE)
    replays = int(graph_calls(context).sum())
    return GraphCapture(begun, calls(_LAUNCH), len(context.trace.device), replays) if begun else None


def _is_call(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None
