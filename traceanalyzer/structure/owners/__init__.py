"""Which owner does each moment of a host thread belong to? The owners of a trace, by number.

For other analyses and exports:

    index = context.once(owner_index)         # without owners where no host thread did anything
    index.owners[number]                      # what the owner is: kind, name, role, file, line
    index.at(thread, times)                   # number of the owner of each moment of a thread, -1 for none
    index.of_host_rows(context, rows)         # ... of rows of the host table, at their start
    index.of_launches(context, rows)          # ... of rows of the launch table, at their start
    index.timeline                            # the steps that count, cut into segments with one owner each

The segments of the timeline tile the steps that count: they follow the critical thread (`critical.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners.critical import Critical, critical
from traceanalyzer.structure.owners.labels import Owner, labels, place
from traceanalyzer.structure.owners.tree import OwnerTree, owner_tree
from traceanalyzer.trace.table import I64, Array, entries
from traceanalyzer.trace.tree import NO_PARENT


class OwnerTimeline(msgspec.Struct, frozen=True):
    """The critical thread of the steps that count, cut into segments; arrays of one length, in the order of time."""

    start_ns: I64
    end_ns: I64
    thread: I64
    """The critical thread."""
    owner: I64
    """Number of the owner; -1 if none is known."""


class OwnerIndex(msgspec.Struct, frozen=True, dict=True):
    """The owners of a trace and their time."""

    critical: Critical
    nested: OwnerTree
    owners: Sequence[Owner]
    owner: I64
    """Number of the owner of each slice of the tree."""

    def at(self, thread: Array, times: I64) -> I64:
        """For each moment of a thread, the number of its owner; -1 if none is known."""
        return entries(self.owner, self.slice_at(thread, times), NO_PARENT)

    def slice_at(self, thread: Array, times: I64) -> I64:
        """For each moment of a thread, the innermost slice that owns it, as a position in the tree; -1 for none.

        Work of autograd's thread outside of its critical time belongs to its own slices, if there are any.
        """
        return self.nested.tree.innermost(thread.astype(np.int32), times)

    def of_host_rows(self, context: Context, rows: I64) -> I64:
        """Owners of rows of the host table, by number: those of the moments at which they start."""
        host = context.trace.host
        return self.at(host.thread[rows], host.start_ns[rows])

    def of_launches(self, context: Context, rows: I64) -> I64:
        """Owners of rows of the launch table, by number."""
        launches = context.trace.launches
        return self.at(launches.thread[rows], launches.start_ns[rows])

    @cached_property
    def places(self) -> tuple[str | None, ...]:
        """Each owner in one line, None for operators and calls; one more None answers for the number -1."""
        return (*map(place, self.owners), None)

    @cached_property
    def timeline(self) -> OwnerTimeline:
        """The steps that count as segments with one owner each; they tile these steps."""
        found, tree = self.critical, self.nested.tree
        if not found.kept:
            return OwnerTimeline(*np.empty((4, 0), np.int64))
        own = np.isin(tree.thread, [thread for thread in (found.main, found.engine) if thread is not None])
        start, end = found.pieces(np.concatenate((tree.start_ns[own], tree.end_ns[own])))
        thread = found.at(start)
        owner = self.at(thread, start)
        opens = np.append(True, (owner[1:] != owner[:-1]) | (start[1:] != end[:-1]) | (thread[1:] != thread[:-1]))
        first = np.flatnonzero(opens[: len(start)])
        last = np.append(first[1:], len(start)) - 1
        return OwnerTimeline(start[first], end[last], thread[first], owner[first])


def owner_index(context: Context) -> OwnerIndex:
    """The owners of a trace. Use it with `once`."""
    return index_of(context, critical(context))


def index_of(context: Context, found: Critical) -> OwnerIndex:
    """The owners in the time that counts for some critical threads."""
    nested = owner_tree(context, found)
    owners, owner = labels(context, nested)
    return OwnerIndex(found, nested, owners, owner)
