"""Copies into the static inputs of graphs: device copies by a compiled region before it launches a graph."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge import compiled_code
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.launch_calls import graph_calls
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT

_COPIES = frozenset({"aten::copy_", "aten::_foreach_copy_"})
_BEFORE_ALL = -1


class InputCopies(msgspec.Struct, frozen=True):
    """Copies of inputs that the graphs of compiled code read from fixed addresses; sums over the typical steps."""

    calls: int
    """Copy operators that start before the last graph launch of their region."""
    host_ns: int
    """Host time in ns of these operators."""
    device_ns: int
    """Device time in ns of the work that they launched."""
    shapes: tuple[str, ...]
    """Input shapes of the operators as recorded, the most frequent first; calls without recorded shapes are left
    out."""


def analyze(context: Context, steps: Steps) -> InputCopies | None:
    """Copies before graph launches in compiled regions; None if no region launches a graph."""
    host = context.host
    if not len(steps):
        return None
    region = host.tree.nearest(context.trace.names.where(compiled_code.is_region)[host.name])
    last = _last_launch(context, region)
    if not (last > _BEFORE_ALL).any():
        return None
    copies = np.flatnonzero(context.trace.names.where(_is_copy)[host.name])
    start = host.tree.start_ns[copies]
    wanted = (start < entries(last, region[copies], _BEFORE_ALL)) & (steps.at(start) >= 0)
    copies = copies[wanted]
    time = host.tree.end_ns[copies] - host.tree.start_ns[copies]
    return InputCopies(len(copies), int(time.sum()), _device_ns(context, copies), _shapes(context, copies))


def _is_copy(name: str) -> bool:
    return name in _COPIES


def _last_launch(context: Context, region: I64) -> I64:
    """For each node, the start of the last graph launch in it if it is a region, or -1."""
    calls = np.flatnonzero(graph_calls(context))
    around = entries(region, context.links.innermost[calls], NO_PARENT)
    inside = around != NO_PARENT
    last = np.full(len(region), _BEFORE_ALL, np.int64)
    np.maximum.at(last, around[inside], context.trace.launches.start_ns[calls[inside]])
    return last


def _device_ns(context: Context, copies: I64) -> int:
    """Device time of the work that some operators launched."""
    marked = np.zeros(len(context.host.tree), np.bool_)
    marked[copies] = True
    around = entries(context.host.tree.nearest(marked), context.links.device_node(), NO_PARENT)
    return int(context.trace.device.dur_ns[around != NO_PARENT].sum())


def _shapes(context: Context, copies: I64) -> tuple[str, ...]:
    """Shapes of the operators, the most frequent first."""
    codes, counts = np.unique(context.trace.host.shapes[context.host.row[copies]], return_counts=True)
    texts = [(context.trace.shapes[code], count) for code, count in zip(codes.tolist(), counts.tolist(), strict=True)]
    return tuple(text for text, _ in sorted(texts, key=lambda pair: (-pair[1], pair[0])) if text)[:5]
