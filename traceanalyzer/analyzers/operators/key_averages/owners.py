"""Which operator a call of the runtime, or what it put on the device, belongs to: torch goes by ids alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, UNKNOWN, entries
from traceanalyzer.trace.tree import NO_PARENT


class EventOwners:
    """Finds events by their id; several may share one."""

    def __init__(self, ident: I64) -> None:
        """The ids of all events, 0 for events without an id."""
        known = np.flatnonzero(ident > 0)
        self._events = known[np.argsort(ident[known], kind="stable")]
        self._ids = ident[self._events]

    def last(self, ids: I64) -> I64:
        """For each id the last event that has it, or -1."""
        first, end = self._range(ids)
        found = entries(self._events, end - 1, NO_PARENT)
        return np.where(end > first, found, NO_PARENT)

    def all(self, ids: I64) -> tuple[I64, I64]:
        """All pairs of a position in `ids` and an event with that id."""
        first, end = self._range(ids)
        count = end - first
        position = np.repeat(np.arange(len(ids)), count)
        nth = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
        return position, self._events[first[position] + nth]

    def _range(self, ids: I64) -> tuple[I64, I64]:
        return np.searchsorted(self._ids, ids, side="left"), np.searchsorted(self._ids, ids, side="right")


@dataclass(frozen=True)
class Linked:
    """Id of the operator of every event of three tables; 0 for none."""

    launches: I64
    device: I64
    syncs: I64


def linked_ids(context: Context) -> Linked:
    """The recorded ids; if the trace has correlations in their place, the correct ids."""
    trace = context.trace
    launches = _by_containment(context) if _confused(trace) else _as_written(trace)
    calls = EventOwners(np.maximum(trace.launches.correlation, 0))
    of_call = np.append(launches, 0)
    written = np.maximum(trace.device.external_id, 0)
    doubtful = (written == trace.device.correlation) & (written > 0)
    device = np.where(doubtful, of_call[calls.last(trace.device.correlation)], written)
    return Linked(launches, device, of_call[calls.last(trace.syncs.correlation)])


def _confused(trace: Trace) -> bool:
    """Whether the writer put the correlation where the operator's id belongs, as from 2022 to 2023."""
    launches = trace.launches
    known = (launches.external_id > 0) & (launches.correlation > 0)
    same = launches.external_id[known] == launches.correlation[known]
    return bool(len(same) and same.mean() > 0.5)


def _by_containment(context: Context) -> I64:
    """Take the id of the innermost operator around the launch."""
    host = context.host
    row = np.where(host.kind == NodeKind.MODULE, UNKNOWN, host.row)  # rows of modules are of another table
    ids = entries(np.maximum(context.trace.host.external_id, 0), row, 0)
    return entries(ids, context.links.node, 0)


def _as_written(trace: Trace) -> I64:
    """Take the ids as written, except where a call without an operator has its correlation for an id (until 2024)."""
    host, launches = trace.host, trace.launches
    ids = np.maximum(launches.external_id, 0)
    doubtful = np.flatnonzero((ids == launches.correlation) & (ids > 0))
    if len(doubtful) and len(host):
        owner = EventOwners(np.maximum(host.external_id, 0)).last(ids[doubtful])
        start, end = host.start_ns[owner], host.start_ns[owner] + host.dur_ns[owner]
        at = launches.start_ns[doubtful]
        around = (owner != NO_PARENT) & (host.thread[owner] == launches.thread[doubtful]) & (start <= at) & (at < end)
        ids[doubtful[~around]] = 0
    return ids
