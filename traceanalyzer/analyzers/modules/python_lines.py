"""Which lines of Python cost most host time, and which launch the work of the device?

With stacks, the profiler records the call of every Python function as a frame, `file.py(123): name`. Frames of
one thread nest. Time in built-in functions and in the frames of `nn.Module`, which have no line, belongs to the
line that called them.

Autograd launches the backward pass from threads without Python frames. The work belongs to the line that called the
corresponding operator of the forward pass; flows and sequence numbers show that operator. If autograd itself called
that operator (in a second derivative, or in a checkpoint that is run again), the work belongs to the line of the
evaluation around it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import LineTree, line_tree, own_line_tree
from traceanalyzer.structure.module_calls import forward_nodes, owners
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT, Tree


class Line(msgspec.Struct, frozen=True):
    """All calls of one Python function."""

    name: str
    """The line as recorded, `file.py(123): function`, at which the profiler first saw the call."""
    calls: int
    """Number of calls that overlap the chosen steps."""
    host_self_ns: int
    """Time in ns in the function itself, in built-in functions and in operators that it called."""
    host_total_ns: int
    """Time in ns from its calls to its returns; calls within a call of the same function count once."""
    device_self_ns: int
    """Device time in ns of the work launched while the function was the innermost one, each in full."""
    device_total_ns: int
    """Device time in ns of the work launched anywhere within its calls; each launch counts once."""
    backward_device_self_ns: int | None = None
    """Device time in ns of what autograd launched, while no line ran, for operators that were called while the function
    was the innermost one, each in full; null in reports of versions that did not know it."""
    backward_device_total_ns: int | None = None
    """As `backward_device_self_ns`, for operators that were called anywhere within its calls; each launch counts
    once."""


class PythonLines(msgspec.Struct, frozen=True):
    """Lines, the most device self time of both passes first; without a device the most host self time."""

    rows: tuple[Line, ...]
    """Every line, those of torch and of the standard library too."""
    rows_outside_torch: tuple[Line, ...]
    """Lines outside of the package torch: what torch's own functions take belongs to the line that called them."""
    device_ns: int
    """Sum of the durations of everything on devices in ns, launched by Python or not."""
    unattributed_device_ns: int
    """Part of the device time in ns that no recorded line launched: by the threads of autograd, or without a launch in
    the trace."""
    backward_device_ns: int | None = None
    """Part of that in ns that autograd launched for operators of known lines: the sum of the backward self times of
    `rows`; null in reports of versions that did not know it."""


def analyze(context: Context) -> PythonLines:
    """One row per function, and what belongs to none."""
    rows, launched, attributed = _rows(context, context.cached(line_tree))
    outside, _, _ = _rows(context, context.cached(own_line_tree))
    backward = sum(row.backward_device_self_ns or 0 for row in rows)
    context.release(line_tree, own_line_tree)
    return PythonLines(rows, outside, launched, launched - attributed, backward)


def _rows(context: Context, lines: LineTree) -> tuple[tuple[Line, ...], int, int]:
    """The rows, the device time of all launches, and the part of it in the rows."""
    tree = lines.tree
    start, end, touches = _clipped(context, tree)
    host = end - start
    launched, of_lines, of_gradients = _device_time(context, lines)
    device_self = sum_by(*of_lines, len(tree))
    backward_self = sum_by(*of_gradients, len(tree))
    # Self and total times of each frame in ns; a frame inside another of its function is in the total of that.
    times = (
        (host - tree.child_sums(host), host),
        (device_self, tree.sums(device_self)),
        (backward_self, tree.sums(backward_self)),
    )
    rows = _by_function(context, lines, np.flatnonzero(touches), times)
    on_device = bool(len(context.trace.device))
    rows.sort(key=lambda row: (-_cost(row, on_device), -row.host_self_ns, row.name))
    _, device = of_lines
    return tuple(rows), launched, int(device.sum())


def _by_function(context: Context, lines: LineTree, counted: I64, times: Sequence[tuple[I64, I64]]) -> list[Line]:
    """One row per function: its calls, and the sums of the self and total times of some frames."""
    first, groups = group(lines.name[counted])
    outermost = lines.tree.outermost(ranked(lines.name)[1].astype(np.int64))[counted]
    columns = [sum_by(groups, context.calls_of_frames(lines.row[counted]), len(first))]
    for self_ns, total_ns in times:
        columns.append(sum_by(groups, self_ns[counted], len(first)))
        columns.append(sum_by(groups[outermost], total_ns[counted][outermost], len(first)))
    codes = lines.name[counted][first].tolist()
    figures = np.column_stack(columns).tolist()
    return [Line(context.trace.names[code], *values) for code, values in zip(codes, figures, strict=True)]


def _cost(row: Line, on_device: bool) -> int:
    return row.device_self_ns + (row.backward_device_self_ns or 0) if on_device else row.host_self_ns


def _clipped(context: Context, tree: Tree) -> tuple[I64, I64, Bool]:
    """Starts and ends of the frames within the chosen steps, and which frames touch them.

    Functions such as `main` start long before the chosen steps, so frames are cut, not left out.
    """
    scope = context.scope
    if scope is None:
        return tree.start_ns, tree.end_ns, np.ones(len(tree), np.bool_)
    touches = (tree.start_ns < scope[1]) & ((tree.end_ns > scope[0]) | (tree.start_ns == scope[0]))
    return tree.start_ns.clip(*scope), tree.end_ns.clip(*scope), touches


def _device_time(context: Context, lines: LineTree) -> tuple[int, tuple[I64, I64], tuple[I64, I64]]:
    """Device time of all launches, and the part that lines launched in the forward and in the backward pass.

    Events that were launched in the chosen steps count, and events that ran in them if their launch is not in the
    trace.

    Returns:
        The sum in ns; position of the frame and duration in ns of each event that a line launched; the same of each
        other event that autograd launched for an operator that a line called.
    """
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    linked = launch != NO_PARENT
    counted = context.in_scope(np.where(linked, take_or(launches.start_ns, launch, 0), device.start_ns))
    total = int(device.dur_ns[counted].sum())
    events = np.flatnonzero(counted & linked)
    position = lines.tree.innermost(launches.thread[launch[events]], launches.start_ns[launch[events]])
    found = position != NO_PARENT
    others = events[~found]
    behind = _frames_of_launches(context, lines.tree)[launch[others]]
    known = behind != NO_PARENT
    known[known] = _clipped(context, lines.tree)[2][behind[known]]
    return total, (position[found], device.dur_ns[events[found]]), (behind[known], device.dur_ns[others[known]])


class _Evaluations(msgspec.Struct, frozen=True):
    """Autograd's evaluations, in the order of the host tree."""

    forward: I64
    """For each evaluation, the position in the host tree of its operator in the forward pass; -1 if unknown."""
    around_forward: I64
    """For each evaluation, the evaluation in which that operator was called; -1 for none."""
    of_launch: I64
    """For each launch, the innermost evaluation around it; -1 for none."""


def _frames_of_launches(context: Context, frames: Tree) -> I64:
    """For each launch within an evaluation of autograd, the Python frame of the corresponding forward pass.

    Args:
        context: The trace.
        frames: Some of its Python frames.

    Returns:
        Positions in the tree of frames, -1 if there is none; shape (launches,).
    """
    found = context.cached(_evaluations)
    tree = context.host.tree
    known = np.flatnonzero(found.forward != NO_PARENT)
    forward = found.forward[known]
    frame = np.full(len(found.forward), NO_PARENT, np.int64)
    frame[known] = frames.innermost(tree.thread[forward], tree.start_ns[forward])
    while True:  # one round for each level of nested backward passes
        unknown = np.flatnonzero((frame == NO_PARENT) & (found.around_forward != NO_PARENT))
        further = frame[found.around_forward[unknown]]
        if not (further != NO_PARENT).any():
            return take_or(frame, found.of_launch, NO_PARENT)
        frame[unknown] = further


def _evaluations(context: Context) -> _Evaluations:
    modules = context.cached(owners)
    tree = context.host.tree
    evaluations, forward = forward_nodes(context)
    number = np.full(len(tree) + 1, NO_PARENT, np.int64)
    number[evaluations] = np.arange(len(evaluations))
    around = take_or(modules.evaluation, np.arange(-1, len(tree)), NO_PARENT)
    inside = number[around]  # for each node, from -1 on
    return _Evaluations(forward, inside[forward + 1], inside[modules.launch_node + 1])


_FRAMES = Need(
    Text("skip-no-stacks", "the trace has no Python frames: record them with with_stack=True"),
    lambda context: len(context.cached(line_tree).tree),
)
ANALYSES = (Analysis(340, "python_lines", PythonLines, analyze, needs=(_FRAMES,)),)
