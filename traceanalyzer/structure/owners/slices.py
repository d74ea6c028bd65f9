"""Slices of host threads that may own time, and their roles, as far as their names show them.

They are marks, modules, Python functions, evaluations of autograd, and broadcasts of buffers: DistributedDataParallel
broadcasts the buffers of a model at the start of each forward pass of a training, unless it was made with
`broadcast_buffers=False`: it flattens the buffers, broadcasts them and copies them back. Without stacks only the first
operators of `DistributedDataParallel.forward` show it.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np

from traceanalyzer.knowledge import host_roles, python_frames
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.knowledge.kernel_names import NAMES_KEPT
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.module_calls import forward_nodes, owners
from traceanalyzer.structure.owners.critical import Critical
from traceanalyzer.structure.sums import Columns, group, members, rows_by
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Array, take_or
from traceanalyzer.trace.tree import NO_PARENT

FORWARD = "DistributedDataParallel.forward"
is_part = finds(
    r"^(?:aten::(?:(?:un)?flatten_dense_tensors|copy_|cat|empty\w*|view|slice|narrow|detach|detach_|to|reshape|select)"
    r"|detach_?|c10d::\w*broadcast\w*|(?:nccl|gloo|rccl|xccl):_?broadcast\w*|record_param_comms"
    r"|torch::distributed\w*::\w*)$"
)
"""Whether an operator may be part of a broadcast of buffers."""
is_broadcast = finds(r"broadcast")
"""Whether an event is a broadcast, by c10d's operator or by the mark of the collective."""
_BUILT_IN = ("<built-in ", "<method ")
ROLE_IDS = (None, *(role.id for role in host_roles.ROLES), host_roles.LOADER, host_roles.COMPILATION)
"""Ids by code; code 0 is none."""


class Broadcasts(Columns, frozen=True):
    """Broadcasts of buffers in the order of time."""

    mark: I64
    """Row of each mark of a forward pass in the host table."""
    start_ns: I64
    end_ns: I64


def broadcasts(context: Context) -> Broadcasts:
    """Each interval is from the start of a forward pass to the end of the last operator of its broadcast."""
    host, names = context.trace.host, context.trace.names
    marks = np.flatnonzero(host.name == names.code(FORWARD))
    none = Broadcasts(*np.empty((3, 0), np.int64))
    if not len(marks):
        return none
    wanted = host_activity.operator_rows(context) | names.where(is_broadcast)[host.name]
    operators = np.flatnonzero(wanted & (host.name != names.code(FORWARD)))
    operators_of = rows_by(host.thread[operators])
    of_threads = [
        _broadcasts_in(context, marks[positions], _outermost(context, operators[operators_of(thread)]))
        for thread, positions in members(host.thread[marks])
    ]
    return Broadcasts.join([none, *of_threads])


def _broadcasts_in(context: Context, marks: I64, operators: I64) -> Broadcasts:
    """The broadcasts with which forward passes begin.

    Args:
        context: The recording.
        marks: Rows of the marks of forward passes on one thread.
        operators: Rows of its outermost operators and broadcasts, in the order of time.
    """
    host, names = context.trace.host, context.trace.names
    start, name = host.start_ns[operators], host.name[operators]
    # The operators of a mark's broadcast are first:after: up to the first that is no part of one, or the mark's end.
    first = np.searchsorted(start, host.start_ns[marks])
    others = np.append(np.flatnonzero(~names.where(is_part)[name]), len(operators))
    after = np.minimum(others[np.searchsorted(others, first)], np.searchsorted(start, host.end_ns[marks]))
    broadcasts_before = np.append(0, np.cumsum(names.where(is_broadcast)[name]))
    has_broadcast = (after > first) & (broadcasts_before[after] > broadcasts_before[first])
    mark, last = marks[has_broadcast], operators[after[has_broadcast] - 1]
    return Broadcasts(mark, host.start_ns[mark], np.minimum(host.end_ns[last], host.end_ns[mark]))


def _outermost(context: Context, rows: I64) -> I64:
    """The outermost ones among some events of a thread, which are in the order of time."""
    host = context.trace.host
    reach = np.maximum.accumulate(np.append(-1, host.end_ns[rows]))[:-1]
    return rows[host.start_ns[rows] >= reach]


class OwnerKind(IntEnum):
    """Kinds of slices that may own time."""

    MARK = 0
    MODULE = 1
    FUNCTION = 2
    """A Python function of the program itself."""
    LIBRARY = 3
    """A Python function of an installed library."""
    BACKWARD = 4
    """Autograd's evaluations for the forward pass of a module."""
    AUTOGRAD = 5
    """Autograd's thread outside of recorded functions."""
    OPERATOR = 6
    """An operator outside of owners of other kinds."""
    CALL = 7
    """A runtime call outside of owners of other kinds."""
    BUILT_IN = 8
    """A built-in function with a role; its caller is the owner."""
    BROADCAST = 9
    """The part of a mark in which DistributedDataParallel broadcasts buffers."""


class Slices(Columns, frozen=True):
    """Slices of host threads in any order."""

    thread: I32
    start_ns: I64
    dur_ns: I64
    name: I64
    """Code of the name that groups slices of one kind."""
    kind: Array

    @classmethod
    def of(cls, kind: OwnerKind, table: object, rows: I64, name: I64 | None = None) -> Slices:
        """Rows of a table of slices as slices of one kind."""
        own = np.full(len(rows), kind, np.uint8)
        code = getattr(table, "name")[rows].astype(np.int64) if name is None else name  # noqa: B009 - any table
        return cls(table.thread[rows], table.start_ns[rows], table.dur_ns[rows], code, own)  # type: ignore[attr-defined]


def candidates(context: Context, found: Critical) -> Slices:
    """Everything that may own time on the threads whose owners are reported, near the steps that count."""
    parts = (_marks(context), *_frames(context), _backward(context), _broadcasts(context))
    joined = Slices.join(parts)
    near = found.near(joined.start_ns, joined.start_ns + joined.dur_ns)
    return joined.take(near & is_among(joined.thread, found.threads))


def _marks(context: Context) -> Slices:
    """Marks except those of collectives, which are leaves like operators."""
    rows = np.flatnonzero(is_mark(context))
    rows = rows[~context.trace.names.where(host_activity.is_communicating)[context.trace.host.name[rows]]]
    return Slices.of(OwnerKind.MARK, context.trace.host, rows)


def _frames(context: Context) -> tuple[Slices, ...]:
    frames, names = context.trace.frames, context.trace.names
    modules = frames.module_id != UNKNOWN
    own = names.where(python_frames.is_own)[frames.name] & ~modules
    library = names.where(python_frames.is_telling_library)[frames.name] & ~modules
    built_in = names.where(_is_built_in_with_role)[frames.name] & ~modules
    kinds = (
        (OwnerKind.MODULE, modules),
        (OwnerKind.FUNCTION, own),
        (OwnerKind.LIBRARY, library),
        (OwnerKind.BUILT_IN, built_in),
    )
    return tuple(Slices.of(kind, frames, np.flatnonzero(rows)) for kind, rows in kinds)


def _is_built_in_with_role(name: str) -> bool:
    """Whether a function shows what its caller does: a built-in one, or one of the standard library that waits."""
    role = host_roles.of_frame(name)
    return role is not None and (name.startswith(_BUILT_IN) or role == host_roles.REQUESTS)


def _backward(context: Context) -> Slices:
    """Evaluations of autograd whose module is known, under the name of the module."""
    modules = context.cached(owners)
    evaluations, forward = forward_nodes(context)
    module = take_or(modules.module, forward, NO_PARENT)
    known = np.flatnonzero(module != NO_PARENT)
    nodes, host = evaluations[known], context.host
    kind = np.full(len(nodes), OwnerKind.BACKWARD, np.uint8)
    start, end = host.tree.start_ns[nodes], host.tree.end_ns[nodes]
    return Slices(host.tree.thread[nodes], start, end - start, host.name[module[known]].astype(np.int64), kind)


def _broadcasts(context: Context) -> Slices:
    """Broadcasts of buffers that no Python function shows."""
    host, frames = context.trace.host, context.trace.frames
    found = context.cached(broadcasts)
    told = frames.thread[context.trace.names.where(_broadcasts_buffers)[frames.name]]
    rows = np.flatnonzero(~np.isin(host.thread[found.mark], told))
    mark = found.mark[rows]
    kind = np.full(len(rows), OwnerKind.BROADCAST, np.uint8)
    duration = (found.end_ns - found.start_ns)[rows]
    return Slices(host.thread[mark], found.start_ns[rows], duration, host.name[mark].astype(np.int64), kind)


def _broadcasts_buffers(name: str) -> bool:
    return host_roles.of_frame(name) == host_roles.BUFFERS


_BY_FRAME = (OwnerKind.MODULE, OwnerKind.FUNCTION, OwnerKind.LIBRARY, OwnerKind.BUILT_IN)


def own_roles(context: Context, slices: Slices) -> I64:
    """For each slice the code of the role that its own name shows, 0 for none."""
    names = context.trace.names
    first, of_slice = group(slices.kind, slices.name)
    kinds = zip(slices.kind[first].tolist(), slices.name[first].tolist(), strict=True)
    told = [ROLE_IDS.index(_role(kind, names[name])) for kind, name in kinds]
    return np.array(told, np.int64)[of_slice]


@lru_cache(NAMES_KEPT)
def _role(kind: int, name: str) -> str | None:
    if kind == OwnerKind.BROADCAST:
        return host_roles.BUFFERS
    if kind == OwnerKind.MARK:
        return host_roles.COMPILATION if host_activity.is_compiling(name) else host_roles.of_mark(name)
    if kind in _BY_FRAME:
        return host_roles.COMPILATION if host_activity.is_compiling(name) else host_roles.of_frame(name)
    return None
