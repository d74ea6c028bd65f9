"""Which owner does each moment of a host thread belong to? The owners of a trace, by number.

For other analyses and exports:

    index = context.cached(owner_index)         # without owners where no host thread did anything
    index.owners[number]                      # what the owner is: kind, name, role, file, line
    index.at(thread, times)                   # number of the owner of each moment of a thread, -1 for none
    index.of_host_rows(context, rows)         # ... of rows of the host table, at their start
    index.of_launches(context, rows)          # ... of rows of the launch table, at their start
    index.timeline                            # the steps that count, cut into segments with one owner each

The segments of the timeline tile the steps that count: they follow the critical thread (`critical.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.knowledge import python_frames
from traceanalyzer.knowledge.host_roles import REQUESTS, WRITING
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import MANY, pattern
from traceanalyzer.structure.owners.critical import Critical, critical
from traceanalyzer.structure.owners.slices import ROLE_IDS, OwnerKind
from traceanalyzer.structure.owners.tree import OwnerTree, owner_tree
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, Array, take_or
from traceanalyzer.trace.tree import NO_PARENT

_INSTANCE = re.compile(r"^nn\.Module: (.*?)(?:_\d+)?$", re.DOTALL)
EVALUATION = "autograd::engine::evaluate_function: "
_KINDS = {
    OwnerKind.MARK: "mark",
    OwnerKind.BROADCAST: "mark",
    OwnerKind.MODULE: "module",
    OwnerKind.FUNCTION: "function",
    OwnerKind.LIBRARY: "library",
    OwnerKind.BUILT_IN: "function",
    OwnerKind.BACKWARD: "backward",
    OwnerKind.AUTOGRAD: "autograd",
    OwnerKind.OPERATOR: "operator",
    OwnerKind.CALL: "call",
}
AUTOGRAD = "autograd"
_WITHIN = (ROLE_IDS.index(REQUESTS), ROLE_IDS.index(WRITING))
"""Codes of roles that another one around explains: a loader waits for its queue, a logger writes a picture."""
_LEAVES = frozenset({"operator", "call"})


class Owner(msgspec.Struct, frozen=True):
    """One owner of host time."""

    kind: str
    """`mark`, `module`, `function` (of the program), `library` (a function of one), `backward` (of a module),
    `autograd` (in no recorded function), `operator` or `call`."""
    name: str
    """Name of the mark, class of the module, name of the function, operator or call."""
    role: str | None
    """What the work is for, one of `host_roles.ROLES`, `loader` or `compilation`; None if no name shows it."""
    file: str | None = None
    """File of the function, of that of a module's forward pass; None if no stack shows it."""
    line: int | None = None
    """Line in the file; None if no stack shows it."""


def place(own: Owner) -> str | None:
    """An owner in one line, as `train.py(12): step` or the name of a mark or module; None for operators and calls."""
    if own.kind in _LEAVES:
        return None
    if own.file is not None and own.line is not None and own.kind in ("function", "library"):
        return f"{own.file}({own.line}): {own.name}"
    return own.name


def labels(context: Context, nested: OwnerTree) -> tuple[tuple[Owner, ...], I64]:
    """The owners by name, whatever the order of the file, and the number of the owner of each slice."""
    role = _roles(nested)
    name, kind = _callers(nested)
    first, of_slice = group(kind, name, role)
    keys = np.column_stack((kind, name, role))[first].tolist()
    found = _shared([_owner(context, nested, *key) for key in keys])
    by_name = sorted(set(found), key=lambda own: (own.name, own.kind, own.role or "", own.file or "", own.line or 0))
    numbers = {own: number for number, own in enumerate(by_name)}
    return tuple(numbers), np.array([numbers[own] for own in found], np.int64)[of_slice]


def _roles(nested: OwnerTree) -> I64:
    """The role of each slice: its own, else that of the owner around; others around it come before `_WITHIN`."""
    own = take_or(nested.role, nested.tree.nearest(nested.role > 0), 0)
    is_weak = np.isin(nested.role, _WITHIN)
    around = take_or(nested.role, nested.tree.nearest((nested.role > 0) & ~is_weak), 0)
    return np.where((around > 0) & np.isin(own, _WITHIN), around, own)


def _callers(nested: OwnerTree) -> tuple[I64, I64]:
    """Name and kind of each slice; for built-in functions, those of the caller."""
    built_in = nested.kind == OwnerKind.BUILT_IN
    name, kind = nested.name, nested.kind.astype(np.int64)
    if not built_in.any():
        return name, kind
    caller = nested.tree.nearest(~built_in)
    return np.where(caller == NO_PARENT, name, name[caller]), np.where(caller == NO_PARENT, kind, kind[caller])


def _owner(context: Context, nested: OwnerTree, kind: int, name: int, role: int) -> Owner:
    own, told = OwnerKind(kind), ROLE_IDS[role]
    text = AUTOGRAD if own == OwnerKind.AUTOGRAD else context.trace.names[name]
    if own in (OwnerKind.MODULE, OwnerKind.BACKWARD):
        instance = _INSTANCE.match(text)
        forward = python_frames.parse(context.trace.names[nested.forward.get(name, NO_PARENT)])
        place = (None, None) if name not in nested.forward or forward is None else (forward.path, forward.line)
        return Owner(_KINDS[own], instance[1] if instance else text, told, *place)
    frame = python_frames.parse(text) if own in (OwnerKind.FUNCTION, OwnerKind.LIBRARY) else None
    if frame is not None:
        return Owner(_KINDS[own], frame.function, told, frame.path, frame.line)
    return Owner(_KINDS[own], text.removeprefix(EVALUATION), told)


def _shared(found: list[Owner]) -> list[Owner]:
    """Owners; where too many names differ in numbers only, these share one name with `*` for the numbers."""
    if len(found) <= MANY:
        return found
    alike: dict[tuple[str, str, str | None], set[str]] = {}
    for own in found:
        alike.setdefault((own.kind, pattern(own.name), own.file), set()).add(own.name)
    many = {key for key, names in alike.items() if len(names) > MANY}
    return [
        Owner(own.kind, pattern(own.name), own.role, own.file, own.line)
        if (own.kind, pattern(own.name), own.file) in many
        else own
        for own in found
    ]


class OwnerTimeline(msgspec.Struct, frozen=True):
    """The critical thread of the steps that count, cut into segments; arrays of one length, in the order of time."""

    start_ns: I64
    end_ns: I64
    thread: I64
    """The critical thread."""
    owner: I64
    """Number of the owner; -1 if none is known."""
    slice: I64
    """The slice that owns its start, as of `OwnerIndex.slice_at`."""


class OwnerIndex(msgspec.Struct, frozen=True, dict=True):
    """The owners of a trace and their time."""

    critical: Critical
    nested: OwnerTree
    owners: Sequence[Owner]
    owner: I64
    """Number of the owner of each slice of the tree."""

    def at(self, thread: Array, times: I64) -> I64:
        """For each moment of a thread, the number of its owner; -1 if none is known."""
        return take_or(self.owner, self.slice_at(thread, times), NO_PARENT)

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
            return OwnerTimeline(*np.empty((5, 0), np.int64))
        own = np.isin(tree.thread, [thread for thread in (found.main, found.engine) if thread is not None])
        start, end = found.pieces(np.concatenate((tree.start_ns[own], tree.end_ns[own])))
        thread = found.at(start)
        around = self.slice_at(thread, start)
        owner = take_or(self.owner, around, NO_PARENT)
        opens = np.append(True, (owner[1:] != owner[:-1]) | (start[1:] != end[:-1]) | (thread[1:] != thread[:-1]))
        first = np.flatnonzero(opens[: len(start)])
        last = np.append(first[1:], len(start)) - 1
        return OwnerTimeline(start[first], end[last], thread[first], owner[first], around[first])


def owner_index(context: Context) -> OwnerIndex:
    """The owners of a trace. Use it with `cached`."""
    return index_of(context, critical(context))


def launch_owners(context: Context) -> I64:
    """For each launch on the critical threads in the steps that count the number of its owner; -1 for all others.

    Use it with `cached`.
    """
    index, launches = context.cached(owner_index), context.trace.launches
    threads = [thread for thread in (index.critical.main, index.critical.engine) if thread is not None]
    rows = np.flatnonzero(is_among(launches.thread, threads) & index.critical.kept.contains(launches.start_ns))
    owner = np.full(len(launches), NO_PARENT, np.int64)
    owner[rows] = index.of_launches(context, rows)
    return owner


def index_of(context: Context, found: Critical) -> OwnerIndex:
    """The owners in the time that counts for some critical threads."""
    nested = owner_tree(context, found)
    owners, owner = labels(context, nested)
    return OwnerIndex(found, nested, owners, owner)
