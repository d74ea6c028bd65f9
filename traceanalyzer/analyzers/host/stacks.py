"""The stack of each moment of a host thread: its owners, then the operators and runtime calls that the last one calls.

While autograd's thread is the critical one, its stack is put on top of that of the program's thread, which waits for
it. So times of stacks add up to the times of owners: over all stacks that end in an owner, and over all that contain
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import mark_rows
from traceanalyzer.structure.owners import OwnerIndex
from traceanalyzer.structure.owners.labels import EVALUATION, Owner
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.table import I64, Array, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT, Tree

UNKNOWN_OWNER = Owner("unknown", "[unknown]", None)
"""Frame for time without an owner; other profilers use the same name."""


class HostStack(msgspec.Struct, frozen=True):
    """A stack, the outermost frame first."""

    frames: tuple[Owner, ...]
    """Owners, then the calls of the last owner, as owners of kind `operator` or `call`."""
    owners: int
    """Number of frames that are owners, which come first."""


class _Chains(msgspec.Struct, frozen=True):
    """Chains of slices from the outermost to an inner one; chains with equal labels are one."""

    of_slice: I64
    """For each slice of a tree, the chain that ends in it."""
    around: I64
    """For each chain, the one without its last link; -1 for none."""
    label: I64
    """Label of the last link of each chain."""

    @classmethod
    def of(cls, tree: Tree, parent: Array, label: I64) -> _Chains:
        """Find the chains, level by level of the tree.

        Args:
            tree: The slices.
            parent: For each slice the one around it in its chain, which is around it in the tree as well; -1 for none.
            label: Of each slice.
        """
        of_slice = np.full(len(tree), NO_PARENT, np.int64)
        order = np.argsort(tree.depth, kind="stable")
        levels = np.searchsorted(tree.depth[order], np.arange(int(tree.depth.max(initial=-1)) + 2))
        around, last, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for low, high in pairwise(levels.tolist()):
            rows = order[low:high]
            above = entries(of_slice, parent[rows], NO_PARENT)
            first, groups = group(above, label[rows])
            of_slice[rows] = count + groups
            around.append(above[first])
            last.append(label[rows[first]])
            count += len(first)
        return cls(of_slice, np.concatenate(around), np.concatenate(last))

    def labels(self, chain: int) -> list[int]:
        """The labels of one chain, the outermost first; none for -1."""
        found: list[int] = []
        while chain != NO_PARENT:
            found.append(int(self.label[chain]))
            chain = int(self.around[chain])
        return found[::-1]


class _Called(msgspec.Struct, frozen=True):
    """Operators and runtime calls, nested, and the chains of those with one owner."""

    tree: Tree
    chains: _Chains
    owner: I64
    """For each slice, the slice of the owner at its start, as a position among the owners' slices; -1 for none."""
    is_call: Bool

    def at(self, thread: Array, times: I64, owner: I64, *, with_calls: bool) -> I64:
        """For each moment, the chain of the calls of its owner, which is given as a slice; -1 for none."""
        found = self.tree.innermost(thread.astype(np.int32), times)
        if not with_calls:
            found = entries(self.tree.nearest(~self.is_call), found, NO_PARENT)
        own = (found != NO_PARENT) & (entries(self.owner, found, NO_PARENT) == owner)
        return np.where(own, entries(self.chains.of_slice, found, NO_PARENT), NO_PARENT)


class HostStacks:
    """The stacks of the threads whose owners are reported."""

    def __init__(self, context: Context, index: OwnerIndex) -> None:
        self._index = index
        self._names = context.trace.names
        self._owners = _Chains.of(index.nested.tree, index.nested.tree.parent, index.owner)
        self._called = _called(context, index)

    @property
    def bounds(self) -> dict[int, I64]:
        """For each thread, the moments at which its stack may change."""
        return {
            thread: np.concatenate(
                [
                    bound[part]
                    for tree in (self._index.nested.tree, self._called.tree)
                    for part in (tree.threads.get(thread, slice(0, 0)),)
                    for bound in (tree.start_ns, tree.end_ns)
                ]
            )
            for thread in self._index.critical.threads
        }

    def at(self, thread: I64, times: I64, *, with_calls: bool = True) -> tuple[I64, Callable[[int], HostStack]]:
        """Stacks of moments of threads.

        Args:
            thread: Of each moment.
            times: In ns.
            with_calls: Whether runtime calls are part of the stacks.

        Returns:
            For each moment the number of its stack, and a function that gives the stack of a moment by its position.
            Moments with one number have one stack; those with different numbers may have the same.
        """
        main, engine = self._index.critical.main, self._index.critical.engine
        own = self._index.slice_at(thread, times)
        on_engine = thread == (NO_PARENT if engine is None else engine)
        around = np.full(len(times), NO_PARENT, np.int64)
        rows = np.flatnonzero(on_engine)
        around[rows] = self._index.slice_at(np.full(len(rows), main), times[rows])
        chains = [entries(self._owners.of_slice, slices, NO_PARENT) for slices in (around, own)]
        called = self._called.at(thread, times, own, with_calls=with_calls)
        _, numbers = group(*chains, called)

        def stack(row: int) -> HostStack:
            return self._stack(int(chains[0][row]), int(chains[1][row]), int(called[row]))

        return numbers, stack

    def _stack(self, around: int, own: int, called: int) -> HostStack:
        labels = self._owners.labels(around) + self._owners.labels(own)
        frames = [self._index.owners[label] for label in labels]
        if own == NO_PARENT:
            frames.append(UNKNOWN_OWNER)
        owners = len(frames)
        for label in self._called.chains.labels(called):
            name = self._names[label].removeprefix(EVALUATION)
            if name != frames[-1].name:  # an operator that is an owner itself, or that calls itself
                frames.append(Owner("operator", name, None))
        return HostStack(tuple(frames), owners)


def _called(context: Context, index: OwnerIndex) -> _Called:
    """The calls of owners on the threads whose owners are reported, near the time that counts."""
    host, launches, found = context.trace.host, context.trace.launches, index.critical
    is_operator = host_activity.operator_rows(context)
    is_operator[mark_rows(context)] = False
    is_operator |= context.trace.names.where(host_activity.is_communicating)[host.name]
    low, high = found.window

    def near(table: object) -> Bool:
        start, end, thread = (getattr(table, name) for name in ("start_ns", "end_ns", "thread"))
        rows: Bool = (start < high) & (end > low) & np.isin(thread, found.threads)
        return rows

    parts: Sequence[tuple[object, I64]] = (
        (host, np.flatnonzero(is_operator & near(host))),
        (launches, np.flatnonzero(near(launches))),
    )
    thread, start, dur, name = (
        np.concatenate([getattr(table, field)[rows] for table, rows in parts])
        for field in ("thread", "start_ns", "dur_ns", "name")
    )
    is_call = np.repeat([False, True], [len(rows) for _, rows in parts])
    order = np.argsort(start, kind="stable")
    tree, nested = Tree.build(thread[order], start[order], dur[order])
    order = order[nested]
    owner = index.slice_at(tree.thread, tree.start_ns)
    same = owner == entries(owner, tree.parent, NO_PARENT - 1)
    parent = np.where(same, tree.parent, NO_PARENT)
    return _Called(tree, _Chains.of(tree, parent, name[order].astype(np.int64)), owner, is_call[order])
