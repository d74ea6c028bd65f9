"""Stacks of the host's threads: owners, then the operators and runtime calls that the last one calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.owners import EVALUATION, Owner, OwnerIndex
from traceanalyzer.structure.owners.critical import Critical
from traceanalyzer.structure.stack_rows import StackTree
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import HostEvents, Launches
from traceanalyzer.trace.tree import NO_PARENT, Tree

UNKNOWN_OWNER = Owner("unknown", "[unknown]", None)
"""Frame for time without an owner; other profilers use the same name."""


class HostStack(NamedTuple):
    """A stack of a host thread: owners, then the calls of the last owner, as owners of kind `operator` or `call`."""

    number: int
    """Of the tree that has its frames."""
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
        around = [np.empty(0, np.int64)]
        last = [np.empty(0, np.int64)]
        count = 0
        for low, high in pairwise(levels.tolist()):
            rows = order[low:high]
            above = take_or(of_slice, parent[rows], NO_PARENT)
            first, groups = group(above, label[rows])
            of_slice[rows] = count + groups
            around.append(above[first])
            last.append(label[rows[first]])
            count += len(first)
        return cls(of_slice, np.concatenate(around), np.concatenate(last))


class _OnTop:
    """Stacks with chains on top of them; of equal beginnings each is found once."""

    def __init__(self, chains: _Chains, push: Callable[[int, int], int]) -> None:
        """Nothing is found yet.

        Args:
            chains: All chains.
            push: Puts a label on top of a stack and returns the stack's number.
        """
        self._chains, self._push = chains, push
        self._known: dict[tuple[int, int], int] = {}

    def __call__(self, stack: int, chain: int) -> int:
        """The number of a stack with a chain on top; -1 is none."""
        above = []
        while chain != NO_PARENT and (stack, chain) not in self._known:
            above.append(chain)
            chain = int(self._chains.around[chain])
        top = stack if chain == NO_PARENT else self._known[stack, chain]
        for link in reversed(above):
            top = self._known[stack, link] = self._push(top, int(self._chains.label[link]))
        return top


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
            found = take_or(self.tree.nearest(~self.is_call), found, NO_PARENT)
        own = (found != NO_PARENT) & (take_or(self.owner, found, NO_PARENT) == owner)
        return np.where(own, take_or(self.chains.of_slice, found, NO_PARENT), NO_PARENT)


class HostStacks:
    """The stacks of the threads whose owners are reported."""

    def __init__(self, context: Context, index: OwnerIndex) -> None:
        self.tree: StackTree[Owner] = StackTree()
        """The frames of all stacks."""
        self._index = index
        self._names = context.trace.names
        self._owners = _Chains.of(index.nested.tree, index.nested.tree.parent, index.owner)
        self._called = _called(context, index)
        self._with_owners = _OnTop(self._owners, self._push_owner)
        self._with_calls = _OnTop(self._called.chains, self._push_call)
        self._depth: dict[int, int] = {NO_PARENT: 0}

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
        chains = [take_or(self._owners.of_slice, slices, NO_PARENT) for slices in (around, own)]
        called = self._called.at(thread, times, own, with_calls=with_calls)
        _, numbers = group(*chains, called)

        def stack(row: int) -> HostStack:
            return self._stack(int(chains[0][row]), int(chains[1][row]), int(called[row]))

        return numbers, stack

    def _stack(self, around: int, own: int, called: int) -> HostStack:
        owned = self._with_owners(self._with_owners(NO_PARENT, around), own)
        if own == NO_PARENT:
            owned = self._push(owned, UNKNOWN_OWNER)
        return HostStack(self._with_calls(owned, called), self._depth[owned])

    def _push(self, stack: int, owner: Owner) -> int:
        number = self.tree.push(stack, owner)
        self._depth[number] = self._depth[stack] + 1
        return number

    def _push_owner(self, stack: int, label: int) -> int:
        return self._push(stack, self._index.owners[label])

    def _push_call(self, stack: int, label: int) -> int:
        name = self._names[label].removeprefix(EVALUATION)
        if name == self.tree.frame[stack].name:  # an operator that is an owner itself, or that calls itself
            return stack
        return self._push(stack, Owner("operator", name, None))


def _called(context: Context, index: OwnerIndex) -> _Called:
    """The calls of owners on the threads whose owners are reported, near the time that counts."""
    parts = _parts(context, index.critical)
    tree, order = _nested(parts)
    name = np.concatenate([table.name[rows] for table, rows in parts])
    is_call = np.repeat([False, True], [len(rows) for _, rows in parts])
    owner = index.slice_at(tree.thread, tree.start_ns)
    has_same_owner = owner == take_or(owner, tree.parent, NO_PARENT - 1)
    parent = np.where(has_same_owner, tree.parent, NO_PARENT)
    return _Called(tree, _Chains.of(tree, parent, name[order].astype(np.int64)), owner, is_call[order])


def _parts(context: Context, critical: Critical) -> Sequence[tuple[HostEvents | Launches, I64]]:
    """Rows of operators, and of runtime calls, on the threads whose owners are reported."""
    host, launches = context.trace.host, context.trace.launches
    is_operator = host_activity.operator_rows(context) & ~is_mark(context)
    is_operator |= context.trace.names.where(host_activity.is_communicating)[host.name]

    def near(table: HostEvents | Launches) -> Bool:
        return critical.near(table.start_ns, table.end_ns) & is_among(table.thread, critical.threads)

    return (host, np.flatnonzero(is_operator & near(host))), (
        launches,
        np.flatnonzero(near(launches)),
    )


def _nested(parts: Sequence[tuple[HostEvents | Launches, I64]]) -> tuple[Tree, I64]:
    """Some rows of tables as one tree, and the row of what is joined at each of its positions."""
    thread, start, dur = (
        np.concatenate([getattr(table, field)[rows] for table, rows in parts])
        for field in ("thread", "start_ns", "dur_ns")
    )
    order = np.argsort(start, kind="stable")
    tree, nested = Tree.build(thread[order], start[order], dur[order])
    return tree, order[nested]
