"""Resolves selectors in a trace: resources, operators, kernels and their classes, owners of host time, waits.

A selector is `loader`, `gpu`, `host` or `communication`, or a name with the wildcards `*` and `?`. Operators, kernels,
classes of kernels and owners are searched for it in this order; a prefix such as `kernel:NAME` chooses one of them.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from traceanalyzer.errors import UsageError
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.simulation.graph import shifted
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recorded_collectives import communication_kernels, exposed_on_host
from traceanalyzer.structure.sums import rows_by
from traceanalyzer.trace.distinct import distinct, stable_order
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_Test = Callable[[str], bool]
"""Whether a name is meant."""


def _nothing() -> I64:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Selected:
    """The parts of a trace that were selected."""

    kind: str
    """`loader`, `gpu`, `host`, `communication`, `operator`, `kernel`, `class`, `owner` or `synchronization`."""
    name: str
    """The name without its kind, as requested."""
    device: I64 = field(default_factory=_nothing)
    """Rows of the device table."""
    calls: I64 = field(default_factory=_nothing)
    """Rows of the launch table."""
    thread: I64 = field(default_factory=_nothing)
    """Threads of the intervals of host time; intervals of one thread do not overlap."""
    start_ns: I64 = field(default_factory=_nothing)
    end_ns: I64 = field(default_factory=_nothing)


def of_nodes(context: Context, name: str, nodes: I64) -> Selected | None:
    """The work of some nodes of the host tree and all nodes inside them; None without nodes.

    Args:
        context: The trace.
        name: What people call the nodes.
        nodes: Their positions in the tree, ascending.
    """
    tree = context.host.tree
    if not len(nodes):
        return None
    outer = nodes[nodes >= shifted(np.maximum.accumulate(tree.after[nodes]), 0)]
    calls = context.cached(_calls_by_node).of(outer, tree.after[outer].astype(np.int64))
    return Selected(
        "operator",
        name,
        device=context.cached(_events_by_call).at(calls),
        calls=calls,
        thread=tree.thread[outer].astype(np.int64),
        start_ns=tree.start_ns[outer],
        end_ns=tree.end_ns[outer],
    )


@dataclass(frozen=True)
class _Ordered:
    """Rows of a table, by an integer that each has."""

    row: I64
    number: I64
    """Of each row, ascending."""

    @classmethod
    def by(cls, numbers: I64) -> _Ordered:
        """Order the rows of a table."""
        order = stable_order(numbers)
        return cls(order, numbers[order])

    def at(self, numbers: I64) -> I64:
        """The rows with one of some numbers, ascending."""
        return self.of(numbers, numbers + 1)

    def of(self, first: I64, after: I64) -> I64:
        """The rows whose numbers lie in one of some ranges that do not overlap, ascending."""
        opens, closes = np.searchsorted(self.number, first), np.searchsorted(self.number, after)
        sizes = closes - opens
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes - opens, sizes)
        return np.sort(self.row[inside])


def _calls_by_node(context: Context) -> _Ordered:
    """Rows of the launch table by the node of the host tree in which each is."""
    return _Ordered.by(context.links.node)


def _events_by_call(context: Context) -> _Ordered:
    """Rows of the device table by their launch."""
    return _Ordered.by(context.links.launch)


RESOURCES = ("loader", "gpu", "host", "communication")
_SUGGESTED = 3
_ALL = "*"


def select(context: Context, text: str) -> Selected:
    """Resolve a selector.

    Raises:
        UsageError: The trace has no such name; the message suggests similar names.
    """
    kind, name = split(text)
    if kind is None and text in RESOURCES:
        return _resource(context, text)
    for known in (kind,) if kind else tuple(_FINDERS):
        selected = _FINDERS[known](context, name, _matches(name))
        if selected is not None:
            return selected
    raise UsageError(_nothing_found(text, name, names(context, kind)))


def exactly(context: Context, kind: str, name: str) -> Selected | None:
    """The operators, kernels or owners (`kind`) with a name, in which nothing is a wildcard; None if there are none."""
    return _FINDERS[kind](context, name, name.__eq__)


def split(text: str) -> tuple[str | None, str]:
    """Split a selector into its kind, or None, and the name."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon and kind in _FINDERS and not name.startswith(":") else (None, text)


def names(context: Context, kind: str | None = None) -> list[str]:
    """All names that selectors of one kind, or of all kinds, can have."""
    trace, host = context.trace, context.host
    names_of: dict[str, Callable[[], list[str]]] = {
        "operator": lambda: _texts(trace.names, host.name[_operators(context)]),
        "kernel": lambda: _texts(trace.names, trace.device.name),
        "class": lambda: [each.value for each in KernelClass],
        "owner": lambda: sorted({owner.name for owner in context.cached(owner_index).owners}),
    }
    listed = [name for key, make in names_of.items() if kind in (None, key) for name in make()]
    return listed if kind else [*RESOURCES, *listed]


def waiting_calls(context: Context, text: str) -> Selected:
    """Calls that wait for the device: all, those of a runtime function, or those in an operator or owner.

    Raises:
        UsageError: No call matches; the message suggests similar names.
    """
    waits = context.cached(host_activity.waits).row
    if text == _ALL or not len(waits):
        if not len(waits):
            raise UsageError(f"--no-sync {text}: no call in the trace waits for the device")
        return Selected("synchronization", text, calls=waits)
    launches = context.trace.launches
    is_named = _matches(text)
    rows = waits[context.trace.names.where(is_named)[launches.name[waits]]]
    if len(rows):
        return Selected("synchronization", text, calls=rows)
    marked = _named(context, is_named)
    around = take_or(context.host.tree.nearest(marked), context.links.node[waits], NO_PARENT)
    rows = waits[around != NO_PARENT]
    if len(rows):
        return Selected("synchronization", text, calls=rows)
    near = [*_texts(context.trace.names, launches.name[waits]), *_operators_around(context, waits)]
    raise UsageError(_nothing_found(text, text, near, "no call that waits for the device"))


def _resource(context: Context, name: str) -> Selected:
    device = context.trace.device
    if name == "loader":
        if not (context.kind == NodeKind.DATALOADER).any():
            raise UsageError("loader: the trace has no waits for a DataLoader")
        return Selected("loader", name)
    if name == "communication":
        rows = np.flatnonzero(communication_kernels(context.trace))
        on_host = _collectives_on_host(context)
        if on_host:
            thread = np.full(len(on_host), context.cached(owner_index).critical.main)
            return Selected("communication", name, thread=thread, start_ns=on_host.start, end_ns=on_host.end)
        if not len(rows):
            raise UsageError("communication: the trace has no kernels that communicate")
        return Selected("communication", name, device=rows)
    if name == "gpu":
        if not len(device):
            raise UsageError("gpu: nothing in the trace ran on a device")
        return Selected("gpu", name, device=np.arange(len(device)))
    return Selected("host", name, **_own_work(context))


def _collectives_on_host(context: Context) -> Intervals:
    """When the program waits for collectives that run on the CPU; none where a device works."""
    return Intervals.none() if len(context.trace.device) else context.cached(exposed_on_host)


def _own_work(context: Context) -> dict[str, I64]:
    """All time of host threads but waits for the loader, and for collectives, as interval fields of `Selected`."""
    host, every = context.trace.host, Intervals.union(np.array([0]), np.array([_LATER]))
    loads = np.flatnonzero(context.kind == NodeKind.DATALOADER)
    numbers = distinct(np.concatenate((context.trace.launches.thread, host.thread))).tolist()
    if not numbers:
        return {}
    times, of_thread, others = [], rows_by(host.thread[loads]), _collectives_on_host(context)
    for thread in numbers:
        rows = loads[of_thread(thread)]
        times.append(every - Intervals.union(host.start_ns[rows], host.end_ns[rows]) - others)
    return _of_threads(numbers, times)


def _of_threads(numbers: Sequence[int], times: Sequence[Intervals]) -> dict[str, I64]:
    """The times of some threads as interval fields of `Selected`."""
    return {
        "thread": np.repeat(numbers, [len(each) for each in times]).astype(np.int64),
        "start_ns": np.concatenate([each.start for each in times]),
        "end_ns": np.concatenate([each.end for each in times]),
    }


_LATER = 1 << 60


def _operators(context: Context) -> Bool:
    """Mask of the host nodes that are operators or optimizer steps."""
    kind = context.host.kind
    is_operator: Bool = (kind == NodeKind.OPERATOR) | (kind == NodeKind.OPTIMIZER) | (kind == NodeKind.PYTHON)
    return is_operator


def _named(context: Context, is_named: Callable[[str], bool]) -> Bool:
    return _operators(context) & context.trace.names.where(is_named)[context.host.name]


def _operator(context: Context, name: str, is_named: _Test) -> Selected | None:
    return of_nodes(context, name, np.flatnonzero(_named(context, is_named)))


def _kernel(context: Context, name: str, is_named: _Test) -> Selected | None:
    device = context.trace.device
    rows = np.flatnonzero(context.trace.names.where(is_named)[device.name])
    return Selected("kernel", name, device=rows) if len(rows) else None


def _class(context: Context, name: str, is_named: _Test) -> Selected | None:
    device = context.trace.device
    known = [each.value for each in KernelClass if is_named(each.value)]
    if not known:
        return None
    communicates = communication_kernels(context.trace)

    def is_member(kernel: str) -> bool:
        return kernel_class(kernel).value in known

    is_class = context.trace.names.where(is_member)[device.name] & (device.category == Category.KERNEL) & ~communicates
    if KernelClass.COMMUNICATION.value in known:
        is_class |= communicates
    return Selected("class", name, device=np.flatnonzero(is_class)) if is_class.any() else None


def _owner(context: Context, name: str, is_named: _Test) -> Selected | None:
    index = context.cached(owner_index)
    known = np.array([number for number, owner in enumerate(index.owners) if is_named(owner.name)], np.int64)
    segments = index.timeline
    rows = np.flatnonzero(np.isin(segments.owner, known))
    if not len(rows):
        return None
    collectives = _collectives_on_host(context)
    thread, start, end = segments.thread[rows].astype(np.int64), segments.start_ns[rows], segments.end_ns[rows]
    if not collectives:
        return Selected("owner", name, thread=thread, start_ns=start, end_ns=end)
    numbers = distinct(thread).tolist()
    times = [Intervals.union(start[thread == number], end[thread == number]) - collectives for number in numbers]
    return Selected("owner", name, **_of_threads(numbers, times))


_FINDERS: dict[str, Callable[[Context, str, _Test], Selected | None]] = {
    "operator": _operator,
    "kernel": _kernel,
    "class": _class,
    "owner": _owner,
}


def _matches(pattern: str) -> Callable[[str], bool]:
    """Create a test of names against a pattern; only `*` and `?` are special, because names contain brackets."""
    if not any(mark in pattern for mark in "*?"):
        return pattern.__eq__
    escaped = pattern.replace("[", "[[]")
    return lambda name: fnmatch.fnmatchcase(name, escaped)


def _texts(pool: Sequence[str], codes: Array) -> list[str]:
    return sorted(pool[code] for code in distinct(codes).tolist())


def _operators_around(context: Context, calls: I64) -> list[str]:
    node = context.links.node[calls]
    return _texts(context.trace.names, context.host.name[node[node != NO_PARENT]])


def _nothing_found(text: str, name: str, known: Iterable[str], what: str = "nothing in the trace") -> str:
    """The error text for a name that matches nothing."""
    plain = name.strip("*?").lower()
    known = list(dict.fromkeys(known))
    by_lower = {each.lower(): each for each in known}
    near = [each for each in known if plain and plain in each.lower()][:_SUGGESTED]
    near += [by_lower[each] for each in difflib.get_close_matches(plain, list(by_lower), _SUGGESTED, 0.5)]
    near = list(dict.fromkeys(near))[:_SUGGESTED]
    asked = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{text}: {what} has this name.{asked}"
