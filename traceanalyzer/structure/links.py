"""Links device events to their launches (by correlation), and launches to host nodes (by containment)."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.structure.host_tree import HostTree, NodeKind
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT


class Links(msgspec.Struct, frozen=True, dict=True):
    """Positions of launches and nodes, -1 if there is none."""

    launch: I64
    """For each device event, the row of its launch."""
    node: I64
    """For each launch, the position of its host node in the tree; it is never a module."""
    innermost: I64
    """For each launch, the position of the innermost node around it on its thread, modules included."""

    @property
    def in_module(self) -> Bool:
        """Whether a module lies between each launch and its node."""
        between: Bool = (self.innermost != NO_PARENT) & (self.innermost != self.node)
        return between

    @cached_property
    def calls(self) -> I64:
        """Launches that put something on a device, ascending."""
        return distinct(self.launch[self.launch != NO_PARENT])

    @cached_property
    def heads(self) -> I64:
        """For each of `calls`, the row of the first device event that it put there (a graph launch puts many)."""
        linked = np.flatnonzero(self.launch != NO_PARENT)
        return linked[group(self.launch[linked])[0]]

    def device_node(self) -> I64:
        """For each device event, the position of its host node in the tree, or -1."""
        return entries(self.node, self.launch, NO_PARENT)


def link(trace: Trace, host: HostTree) -> Links:
    """Find the launch of every device event and the host node of every launch."""
    innermost = host.tree.innermost(trace.launches.thread, trace.launches.start_ns)
    node = _node_of_launches(trace, host, innermost)
    return Links(_launch_of_device_events(trace), node, innermost)


def _launch_of_device_events(trace: Trace) -> I64:
    """Links by correlation; of several launches with one id, the last that started before the device event."""
    launches, device = trace.launches, trace.device
    known = np.flatnonzero(launches.correlation != UNKNOWN)
    known = known[np.argsort(launches.correlation[known], kind="stable")]  # then by start: rows are
    ids = launches.correlation[known]
    first = np.searchsorted(ids, device.correlation, side="left")
    last = np.searchsorted(ids, device.correlation, side="right") - 1
    linked = (last >= first) & (device.correlation != UNKNOWN)
    choice = np.where(linked, first, 0)
    several = np.flatnonzero(linked & (last > first))
    if len(several):
        before = _started_before(first[several], device.start_ns[several], ids, launches.start_ns[known])
        choice[several] = np.maximum(before - 1, first[several])
    found = known[choice] if len(known) else choice
    return np.where(linked, found, NO_PARENT)


def _started_before(first: I64, times: I64, ids: I64, start: I64) -> I64:
    """For each event, the position after the last launch of its id that started by then.

    Args:
        first: For each event, the first launch of its id.
        times: When each event started.
        ids: Of launches, ascending.
        start: Of launches, ascending among those of one id.
    """
    starts, room = ascending(start), len(start) + 1
    group = np.searchsorted(ids, ids, side="left") * room
    keys = group + np.searchsorted(starts, start, side="left")
    return np.searchsorted(keys, first * room + np.searchsorted(starts, times, side="right"), side="left")


def _node_of_launches(trace: Trace, host: HostTree, innermost: I64) -> I64:
    """The innermost node around the launch that is not a module; an external id only if there is none."""
    launches = trace.launches
    node = host.without_modules(innermost)
    # From 2022 to 2023 writers put the correlation id where the operator's id belongs.
    named = (launches.external_id > 0) & (launches.external_id != launches.correlation)
    homeless = np.flatnonzero((node == NO_PARENT) & named)
    if len(homeless):
        node[homeless] = _by_external_id(trace, host, homeless)
    return node


def _by_external_id(trace: Trace, host: HostTree, rows: I64) -> I64:
    """The one node that a launch names, if its interval contains the launch (on any thread)."""
    nodes = np.flatnonzero(host.kind != NodeKind.MODULE)
    ids = trace.host.external_id[host.row[nodes]]
    order = np.argsort(ids, kind="stable")
    ids, nodes = ids[order], nodes[order]
    wanted = trace.launches.external_id[rows]
    first = np.searchsorted(ids, wanted, side="left")
    unique = np.searchsorted(ids, wanted, side="right") - first == 1
    candidate = nodes[np.where(unique, first, 0)] if len(nodes) else np.zeros(len(rows), np.int64)
    start = trace.launches.start_ns[rows]
    contains = (
        (host.tree.start_ns[candidate] <= start) & (start < host.tree.end_ns[candidate]) if len(nodes) else unique
    )
    return np.where(unique & contains, candidate, NO_PARENT)
