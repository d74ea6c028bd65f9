"""Owners of the host time on the critical path, and the main activity of each stretch of the path."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation.back_pointers import Pieces, Why
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.owners import Owner, owner_index
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT


class OwnedTime(msgspec.Struct, frozen=True):
    """Host time of a critical path, split where its owner changes; in the order of time. Shapes (pieces,)."""

    start_ns: I64
    end_ns: I64
    owner: I64
    """Number of the owner; -1 if unknown."""


def of_host(found: Model, pieces: Pieces) -> OwnedTime:
    """The host time of a path, split by owner."""
    index = found.context.once(owner_index)
    rows = np.flatnonzero(pieces.why == Why.HOST)
    start, end = pieces.start_ns[rows], pieces.end_ns[rows]
    thread = found.graph.host.thread[pieces.point[rows]]
    tree = index.nested.tree
    inside = np.isin(tree.thread, np.unique(thread))
    if len(rows):
        inside &= (tree.start_ns < end[-1]) & (tree.end_ns > start[0])
    borders = ascending(np.concatenate((tree.start_ns[inside], tree.end_ns[inside])))
    piece, start, end = cut(start, end, borders)
    owner = index.at(thread[piece], start) if len(tree) else np.full(len(start), NO_PARENT)
    return OwnedTime(start, end, owner)


def cut(start: I64, end: I64, borders: I64) -> tuple[I64, I64, I64]:
    """Split intervals at some ascending times.

    Returns:
        For each part, the position of its interval, its start and its end.
    """
    first, last = np.searchsorted(borders, start, side="right"), np.searchsorted(borders, end, side="left")
    parts = last - first + 1
    interval = np.repeat(np.arange(len(start)), parts)
    number = np.arange(len(interval)) - np.repeat(np.cumsum(parts) - parts, parts)
    border = np.append(borders, 0)
    after = first[interval] + number
    since = np.where(number == 0, start[interval], border[after - 1])
    until = np.where(number == parts[interval] - 1, end[interval], border[np.minimum(after, len(borders))])
    return interval, since, until


def owner(found: Model, number: int) -> Owner | None:
    """The owner with a number; None for -1."""
    return None if number == NO_PARENT else found.context.once(owner_index).owners[number]


def mostly(found: Model, pieces: Pieces, owned: OwnedTime, begins: I64, end: int) -> tuple[str | None, ...]:
    """The kernel, copy, fill or owner of host time that takes at least half of each stretch of a path.

    Args:
        found: The model.
        pieces: Its path.
        owned: The host time of the path.
        begins: Starts of stretches in ns, each of which lasts until the next; ascending.
        end: End of the last one.
    """
    runs = np.flatnonzero(pieces.why == Why.RUNS)
    device = found.context.trace.device.name[found.graph.device.row[pieces.event[runs]]]
    since = np.append(owned.start_ns, pieces.start_ns[runs]).clip(begins[0], end)
    until = np.append(owned.end_ns, pieces.end_ns[runs]).clip(begins[0], end)
    owners = len(found.context.once(owner_index).owners)
    label = np.append(owned.owner, owners + device.astype(np.int64))  # owner numbers, then name codes
    kept = until > since
    part, since, until = cut(since[kept], until[kept], begins)
    stretch = np.searchsorted(begins, since, side="right") - 1
    first, of_label = group(stretch, label[kept][part])
    time = sum_by(of_label, until - since, len(first))
    stretch, label = stretch[first], label[kept][part][first]
    length = np.append(begins[1:], end) - begins
    said: list[str | None] = [None] * len(begins)
    for row in np.flatnonzero(2 * time >= length[stretch]).tolist():
        code = int(label[row])
        own = owner(found, code) if code < owners else None
        known = own.name if own else None
        said[int(stretch[row])] = known if code < owners else found.context.trace.names[code - owners]
    return tuple(said)
