"""The host nodes of a trace (operators, steps, loaders, optimizers, collectives, modules) as call trees, and links.

Device events are linked to their launches by correlation, and launches to host nodes by containment.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32, I64, U8, UNKNOWN, Array, Bool, take_or
from traceanalyzer.trace.tables import Category, Frames, HostEvents, Launches
from traceanalyzer.trace.tree import NO_PARENT, Tree

_NESTED = ("thread", "start_ns", "dur_ns")
"""Columns by which slices are nested."""


class NodeKind(IntEnum):
    """Kinds of host nodes, by their name and category."""

    OPERATOR = 0
    PYTHON = 1
    STEP = 2
    DATALOADER = 3
    OPTIMIZER = 4
    COLLECTIVE = 5
    """An annotation with the name of a collective."""
    MODULE = 6
    NONE = 7
    """An annotation that is not a node."""


class HostTree(msgspec.Struct, frozen=True, dict=True):
    """Host nodes in the order of the tree, with columns from the trace."""

    tree: Tree
    name: I32
    kind: U8
    category: U8
    row: I32
    """Row in the frame table for modules, in the host table for everything else."""
    merged: Bool
    """Nodes that replace their parent: its only child, of the same name, both operators."""

    wrapper: Bool
    """Nodes that stand for the whole model."""

    @cached_property
    def is_row(self) -> Bool:
        """Which nodes count in operator tables."""
        plain = (self.kind == NodeKind.OPERATOR) & (self.category == Category.OPERATOR)
        rows: Bool = plain & ~self.wrapper & ~self.merged
        return rows

    @cached_property
    def module(self) -> I32:
        """For each node, the innermost module call around it, itself included, or -1."""
        return self.tree.nearest(self.kind == NodeKind.MODULE)

    def without_modules(self, position: I64) -> I64:
        """For each position, itself or its nearest ancestor that is not a module (-1 for none)."""
        if not take_or(self.kind == NodeKind.MODULE, position, False).any():
            return position
        return take_or(self.tree.nearest(self.kind != NodeKind.MODULE), position, NO_PARENT)

    @cached_property
    def top(self) -> I32:
        """For each node, the node that stands for it after duplicates were merged."""
        return self.tree.nearest(~self.merged)


def kinds(trace: Trace) -> U8:
    """The kind of every row of the host table."""
    names, host = trace.names, trace.host
    kind = np.full(len(host), NodeKind.OPERATOR, np.uint8)
    kind[names.where(marks.is_optimizer_step)[host.name]] = NodeKind.OPTIMIZER
    kind[names.where(marks.is_step)[host.name]] = NodeKind.STEP
    kind[names.where(marks.is_dataloader)[host.name]] = NodeKind.DATALOADER
    plain = kind == NodeKind.OPERATOR
    kind[plain & (host.category == Category.PYTHON)] = NodeKind.PYTHON
    annotation = plain & (host.category == Category.ANNOTATION)
    collective = names.where(marks.is_collective)[host.name[annotation]]
    kind[annotation] = np.where(collective, NodeKind.COLLECTIVE, NodeKind.NONE)
    kind[_within_others(host, np.flatnonzero(kind == NodeKind.STEP))] = NodeKind.NONE
    return kind


def _within_others(host: HostEvents, steps: I64) -> I64:
    """Which marks of steps start within another one of their thread: a second profiler counts steps of its own."""
    order = steps[np.lexsort((host.start_ns[steps], host.thread[steps]))]
    thread, start, end = host.thread[order], host.start_ns[order], host.end_ns[order]
    if not ((thread[1:] == thread[:-1]) & (start[1:] < end[:-1])).any():
        return order[:0]
    inside, of, until = [], -1, 0
    for row, on, begins, ends in zip(order.tolist(), thread.tolist(), start.tolist(), end.tolist(), strict=True):
        if on == of and begins < until:
            inside.append(row)
        else:
            of, until = on, ends
    return np.array(inside, np.int64)


def build(trace: Trace, kind: U8) -> HostTree:
    """Nest the nodes of a trace.

    Args:
        trace: The trace.
        kind: Of every host row, from `kinds`.
    """
    host, frames = trace.host, trace.frames
    rows = np.flatnonzero(kind != NodeKind.NONE)
    modules = np.flatnonzero(frames.module_id != UNKNOWN)

    def joined(of_host: Array, of_frames: Array) -> Array:
        return np.concatenate((of_host, of_frames)) if len(modules) else of_host

    if len(modules):  # the rows of one table are in the order of their start
        rows = np.concatenate((rows, modules + len(host)))
        rows = rows[np.argsort(joined(host.start_ns, frames.start_ns)[rows], kind="stable")]
    columns = (joined(getattr(host, name), getattr(frames, name))[rows] for name in _NESTED)
    tree, order = Tree.build(*columns)
    order = rows[order]  # from positions in the tree to the joined tables
    name = joined(host.name, frames.name)[order]
    node_kind = joined(kind, np.full(len(frames), NodeKind.MODULE, np.uint8))[order]
    category = joined(host.category, np.full(len(frames), Category.FRAME, np.uint8))[order]
    row = np.where(order < len(host), order, order - len(host)).astype(np.int32)
    wrapper = trace.names.where(marks.is_wrapper)[name]
    return HostTree(tree, name, node_kind, category, row, _merged(tree, name, category), wrapper)


def nest(table: HostEvents | Launches | Frames, rows: I64) -> tuple[Tree, I64]:
    """Some rows of a table, ascending, as call trees by thread, and these rows in the order of the trees."""
    tree, order = Tree.build(table.thread[rows], table.start_ns[rows], table.dur_ns[rows])
    return tree, rows[order]


def _merged(tree: Tree, name: I32, category: U8) -> Bool:
    """Which nodes are the only child of a parent with the same name, both operators: `aten::x` calling itself.

    An only child directly follows its parent, and ends the same subtree.
    """
    operator = category == Category.OPERATOR
    merged = np.zeros(len(tree), np.bool_)
    merged[1:] = (tree.depth[1:] > tree.depth[:-1]) & (tree.after[1:] == tree.after[:-1])
    merged[1:] &= name[1:] == name[:-1]
    merged[1:] &= operator[1:] & operator[:-1]
    return merged


class Links(msgspec.Struct, frozen=True, dict=True):
    """Positions of launches and nodes, -1 if there is none."""

    launch: I64
    """For each device event, the row of its launch."""
    node: I64
    """For each launch, the position of its host node in the tree; it is never a module."""
    innermost: I64
    """For each launch, the position of the innermost node around it on its thread, modules included."""

    @property
    def in_module(self) -> Bool:
        """Whether a module lies between each launch and its node."""
        between: Bool = (self.innermost != NO_PARENT) & (self.innermost != self.node)
        return between

    @cached_property
    def calls(self) -> I64:
        """Launches that put something on a device, ascending."""
        return distinct(self.launch[self.launch != NO_PARENT])

    @cached_property
    def heads(self) -> I64:
        """For each of `calls`, the row of the first device event that it put there (a graph launch puts many)."""
        linked = np.flatnonzero(self.launch != NO_PARENT)[::-1]
        first = np.empty(len(self.node), np.int64)
        first[self.launch[linked]] = linked  # of the events of a launch, the last one written stays: the first
        return first[self.calls]

    def device_node(self) -> I64:
        """For each device event, the position of its host node in the tree, or -1."""
        return take_or(self.node, self.launch, NO_PARENT)


def link(trace: Trace, host: HostTree) -> Links:
    """Find the launch of every device event and the host node of every launch."""
    innermost = host.tree.innermost(trace.launches.thread, trace.launches.start_ns)
    node = _node_of_launches(trace, host, innermost)
    return Links(_launch_of_device_events(trace), node, innermost)


def _launch_of_device_events(trace: Trace) -> I64:
    """Links by correlation; of several launches with one id, the last that started before the device event."""
    launches, device = trace.launches, trace.device
    known = np.flatnonzero(launches.correlation != UNKNOWN)
    known = known[np.argsort(launches.correlation[known], kind="stable")]  # then by start: rows are
    ids = launches.correlation[known]
    first = np.searchsorted(ids, device.correlation, side="left")
    linked = (take_or(ids, first, UNKNOWN) == device.correlation) & (device.correlation != UNKNOWN)
    choice = np.where(linked, first, 0)
    several = np.flatnonzero(linked & (take_or(ids, first + 1, UNKNOWN) == device.correlation))
    if len(several):
        before = _started_before(first[several], device.start_ns[several], ids, launches.start_ns[known])
        choice[several] = np.maximum(before - 1, first[several])
    found = known[choice] if len(known) else choice
    return np.where(linked, found, NO_PARENT)


def _started_before(first: I64, times: I64, ids: I64, start: I64) -> I64:
    """For each event, the position after the last launch of its id that started by then.

    Args:
        first: For each event, the first launch of its id.
        times: When each event started.
        ids: Of launches, ascending.
        start: Of launches, ascending among those of one id.
    """
    starts, room = ascending(start), len(start) + 1
    group = np.searchsorted(ids, ids, side="left") * room
    keys = group + np.searchsorted(starts, start, side="left")
    return np.searchsorted(keys, first * room + np.searchsorted(starts, times, side="right"), side="left")


def _node_of_launches(trace: Trace, host: HostTree, innermost: I64) -> I64:
    """The innermost node around the launch that is not a module; an external id only if there is none."""
    launches = trace.launches
    node = host.without_modules(innermost)
    # From 2022 to 2023 writers put the correlation id where the operator's id belongs.
    named = (launches.external_id > 0) & (launches.external_id != launches.correlation)
    homeless = np.flatnonzero((node == NO_PARENT) & named)
    if len(homeless):
        node = node.copy()
        node[homeless] = _by_external_id(trace, host, homeless)
    return node


def _by_external_id(trace: Trace, host: HostTree, rows: I64) -> I64:
    """The one node that a launch names, if its interval contains the launch (on any thread)."""
    nodes = np.flatnonzero(host.kind != NodeKind.MODULE)
    ids = trace.host.external_id[host.row[nodes]]
    order = np.argsort(ids, kind="stable")
    ids, nodes = ids[order], nodes[order]
    wanted = trace.launches.external_id[rows]
    first = np.searchsorted(ids, wanted, side="left")
    unique = np.searchsorted(ids, wanted, side="right") - first == 1
    candidate = nodes[np.where(unique, first, 0)] if len(nodes) else np.zeros(len(rows), np.int64)
    start = trace.launches.start_ns[rows]
    contains = (
        (host.tree.start_ns[candidate] <= start) & (start < host.tree.end_ns[candidate]) if len(nodes) else unique
    )
    return np.where(unique & contains, candidate, NO_PARENT)
