"""Which operator a call of the runtime, or what it put on the device, belongs to: torch goes by ids alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT


class Owners:
    """Finds events by their id; several may share one."""

    def __init__(self, ident: I64) -> None:
        """Take the ids of all events, 0 for those that have none."""
        known = np.flatnonzero(ident > 0)
        self._events = known[np.argsort(ident[known], kind="stable")]
        self._ids = ident[self._events]

    def last(self, ids: I64) -> I64:
        """For each id the last event that has it, or -1."""
        first, end = self._range(ids)
        found = np.append(self._events, NO_PARENT)[end - 1]
        return np.where(end > first, found, NO_PARENT)

    def all(self, ids: I64) -> tuple[I64, I64]:
        """All pairs of a position in `ids` and an event that has this id."""
        first, end = self._range(ids)
        count = end - first
        position = np.repeat(np.arange(len(ids)), count)
        nth = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
        return position, self._events[first[position] + nth]

    def _range(self, ids: I64) -> tuple[I64, I64]:
        return np.searchsorted(self._ids, ids, side="left"), np.searchsorted(self._ids, ids, side="right")


@dataclass(frozen=True)
class Linked:
    """For every event of three tables the id of its operator; 0 for none."""

    launches: I64
    device: I64
    syncs: I64


def linked_ids(context: Context) -> Linked:
    """The ids that the trace says, or, where it confuses them with correlations, those it should have said."""
    trace = context.trace
    launches, device = _by_containment(context) if _confused(trace) else _as_written(trace)
    by_correlation = Owners(np.maximum(trace.launches.correlation, 0)).last(trace.syncs.correlation)
    return Linked(launches, device, np.append(launches, 0)[by_correlation])


def _as_written(trace: Trace) -> tuple[I64, I64]:
    return np.maximum(trace.launches.external_id, 0), np.maximum(trace.device.external_id, 0)


def _confused(trace: Trace) -> bool:
    """From 2022 to 2023 writers put the correlation where the operator's id belongs."""
    launches = trace.launches
    known = (launches.external_id > 0) & (launches.correlation > 0)
    same = launches.external_id[known] == launches.correlation[known]
    return bool(len(same) and same.mean() > 0.5)


def _by_containment(context: Context) -> tuple[I64, I64]:
    """The id of the innermost operator around the launch."""
    ids = np.maximum(context.trace.host.external_id, 0)
    of_node = np.append(ids[context.host.row], 0) if len(ids) else np.zeros(len(context.host.row) + 1, np.int64)
    return of_node[context.links.node], of_node[context.links.device_node()]
