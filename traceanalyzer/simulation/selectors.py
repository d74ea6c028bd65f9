"""Resolves selectors in a trace: resources, operators, kernels and their classes, owners of host time, waits.

A selector is `loader`, `gpu`, `host` or `communication`, or a name with the wildcards `*` and `?`. Operators, kernels,
classes of kernels and owners are searched for it in this order; a prefix such as `kernel:NAME` chooses one of them.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from traceanalyzer.errors import UsageError
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.structure import event_rows, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.event_rows import (
    EventRows,
    NameTest,
    collectives_on_host,
    named_operators,
    of_threads,
    operators,
)
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.structure.sums import rows_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

RESOURCES = ("loader", "gpu", "host", "communication")
_SUGGESTED = 3
_ALL = "*"


def select(context: Context, text: str) -> EventRows:
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


def split(text: str) -> tuple[str | None, str]:
    """Split a selector into its kind, or None, and the name."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon and kind in _FINDERS and not name.startswith(":") else (None, text)


def names(context: Context, kind: str | None = None) -> list[str]:
    """All names that selectors of one kind, or of all kinds, can have."""
    trace, host = context.trace, context.host
    names_of: dict[str, Callable[[], list[str]]] = {
        "operator": lambda: _texts(trace.names, host.name[operators(context)]),
        "kernel": lambda: _texts(trace.names, trace.device.name),
        "class": lambda: [each.value for each in KernelClass],
        "owner": lambda: sorted({owner.name for owner in context.cached(owner_index).owners}),
    }
    listed = [name for key, make in names_of.items() if kind in (None, key) for name in make()]
    return listed if kind else [*RESOURCES, *listed]


def waiting_calls(context: Context, text: str) -> EventRows:
    """Calls that wait for the device: all, those of a runtime function, or those in an operator or owner.

    Raises:
        UsageError: No call matches; the message suggests similar names.
    """
    waits = context.cached(host_activity.waits).row
    if text == _ALL or not len(waits):
        if not len(waits):
            raise UsageError(f"--no-sync {text}: no call in the trace waits for the device")
        return EventRows("synchronization", text, calls=waits)
    launches = context.trace.launches
    is_named = _matches(text)
    rows = waits[context.trace.names.where(is_named)[launches.name[waits]]]
    if len(rows):
        return EventRows("synchronization", text, calls=rows)
    marked = named_operators(context, is_named)
    around = take_or(context.host.tree.nearest(marked), context.links.node[waits], NO_PARENT)
    rows = waits[around != NO_PARENT]
    if len(rows):
        return EventRows("synchronization", text, calls=rows)
    near = [*_texts(context.trace.names, launches.name[waits]), *_operators_around(context, waits)]
    raise UsageError(_nothing_found(text, text, near, "no call that waits for the device"))


def _resource(context: Context, name: str) -> EventRows:
    device = context.trace.device
    if name == "loader":
        if not (context.kind == NodeKind.DATALOADER).any():
            raise UsageError("loader: the trace has no waits for a DataLoader")
        return EventRows("loader", name)
    if name == "communication":
        collectives = event_rows.collectives(context)
        if collectives is None:
            raise UsageError("communication: the trace has no kernels that communicate")
        return collectives
    if name == "gpu":
        if not len(device):
            raise UsageError("gpu: nothing in the trace ran on a device")
        return EventRows("gpu", name, device=np.arange(len(device)))
    return EventRows("host", name, **_own_work(context))


def _own_work(context: Context) -> dict[str, I64]:
    """All time of host threads but waits for the loader, and for collectives, as interval fields of `EventRows`."""
    host, every = context.trace.host, Intervals.union(np.array([0]), np.array([_LATER]))
    loads = np.flatnonzero(context.kind == NodeKind.DATALOADER)
    numbers = distinct(np.concatenate((context.trace.launches.thread, host.thread))).tolist()
    if not numbers:
        return {}
    times, of_thread, others = [], rows_by(host.thread[loads]), collectives_on_host(context)
    for thread in numbers:
        rows = loads[of_thread(thread)]
        times.append(every - Intervals.union(host.start_ns[rows], host.end_ns[rows]) - others)
    return of_threads(numbers, times)


_LATER = 1 << 60


def _class(context: Context, name: str, is_named: NameTest) -> EventRows | None:
    device = context.trace.device
    known = [each.value for each in KernelClass if is_named(each.value)]
    if not known:
        return None
    communicates = communication_kernels(context)

    def is_member(kernel: str) -> bool:
        return kernel_class(kernel).value in known

    is_class = context.trace.names.where(is_member)[device.name] & (device.category == Category.KERNEL) & ~communicates
    if KernelClass.COMMUNICATION.value in known:
        is_class |= communicates
    return EventRows("class", name, device=np.flatnonzero(is_class)) if is_class.any() else None


_FINDERS: dict[str, Callable[[Context, str, NameTest], EventRows | None]] = {
    "operator": event_rows.of_operators,
    "kernel": event_rows.of_kernels,
    "class": _class,
    "owner": event_rows.of_owners,
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
