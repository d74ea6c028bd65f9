"""Which events of devices do graphs launch, and which modules and names did the program give to them?

A replayed graph has no calls on the host from which an owner could follow. Torch labels its kernels while the graph is
captured (`mark_kernels`), and its writers put the labels beside the kernels: the path of a module, a name, or anything
else.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.marks import is_graph_launch
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import DeviceDetail
from traceanalyzer.trace.table import I64, Bool, take_or

_LONGEST = 32
"""Most parts of a path that count (own choice: modules of models nest ten deep)."""


class GraphLabels(msgspec.Struct, frozen=True):
    """Labels of events of devices."""

    of_event: I64
    """For each event the row of its label; 0 for none."""
    paths: tuple[tuple[str, ...], ...]
    """The parts of each label, the outermost module first; nothing for row 0."""


def graph_labels(context: Context) -> GraphLabels:
    """The labels of all events of devices."""
    trace = context.trace
    rows: dict[tuple[str, ...], int] = {(): 0}
    of_detail = np.array([rows.setdefault(_path(detail), len(rows)) for detail in trace.details], np.int64)
    return GraphLabels(of_detail[trace.device.detail], tuple(rows))


def _path(detail: DeviceDetail) -> tuple[str, ...]:
    """The parts of a label: modules of the path, then the name; what is neither is a part of its own."""
    named = [detail.label] if detail.label else []
    if not detail.module and not named and detail.annotation:
        named = [detail.annotation]
    modules = [part for part in detail.module.split(".", _LONGEST) if part]
    return (*modules, *named)


def of_graphs(context: Context) -> Bool:
    """Which device events the launch of a graph started."""
    trace, launch = context.trace, context.links.launch
    launches = trace.names.where(is_graph_launch)[trace.launches.name]
    return take_or(launches, launch, False)
