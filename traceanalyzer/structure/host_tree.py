"""The host nodes of a trace (operators, steps, loaders, optimizers, collectives, modules) as call trees."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32, I64, U8, UNKNOWN, Bool, entries
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree


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

    def without_modules(self, position: I64) -> I64:
        """For each position, itself or its nearest ancestor that is not a module (-1 for none)."""
        return entries(self.tree.nearest(self.kind != NodeKind.MODULE), position, NO_PARENT)

    @cached_property
    def top(self) -> I64:
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
    return kind


def build(trace: Trace, kind: U8) -> HostTree:
    """Nest the nodes of a trace.

    Args:
        trace: The trace.
        kind: Of every host row, from `kinds`.
    """
    host, frames = trace.host, trace.frames
    rows = np.flatnonzero(kind != NodeKind.NONE)
    modules = np.flatnonzero(frames.module_id != UNKNOWN)
    start = np.concatenate((host.start_ns[rows], frames.start_ns[modules]))
    order = np.argsort(start, kind="stable")
    dur = np.concatenate((host.dur_ns[rows], frames.dur_ns[modules]))[order]
    thread = np.concatenate((host.thread[rows], frames.thread[modules]))[order]
    tree, nested = Tree.build(thread, start[order], dur)
    order = order[nested]  # from positions in the tree to the concatenated rows
    row = np.concatenate((rows, modules)).astype(np.int32)[order]
    name = np.concatenate((host.name[rows], frames.name[modules]))[order]
    node_kind = np.concatenate((kind[rows], np.full(len(modules), NodeKind.MODULE, np.uint8)))[order]
    category = np.concatenate((host.category[rows], np.full(len(modules), Category.FRAME, np.uint8)))[order]
    wrapper = trace.names.where(marks.is_wrapper)[name]
    return HostTree(tree, name, node_kind, category, row, _merged(tree, name, category), wrapper)


def _merged(tree: Tree, name: I32, category: U8) -> Bool:
    """Which nodes are the only child of a parent with the same name, both operators: `aten::x` calling itself."""
    merged = np.zeros(len(tree), np.bool_)
    nested = np.flatnonzero(tree.parent != NO_PARENT)
    parent = tree.parent[nested]
    only = np.bincount(parent, minlength=len(tree))[parent] == 1
    operators = (category[nested] == Category.OPERATOR) & (category[parent] == Category.OPERATOR)
    merged[nested] = only & operators & (name[nested] == name[parent])
    return merged
