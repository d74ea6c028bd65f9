"""Which collectives and messages make ranks wait for each other, for a replay of all ranks together?

All mutual collectives, whether parts are equal or not, and messages within groups of two ranks, where each message has
its counterpart. Of larger groups a trace does not show between which ranks a message goes.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks import clocks, matching
from traceanalyzer.analyzers.ranks.matching import Matched
from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind, ProcessGroup
from traceanalyzer.analyzers.ranks.table import RankTable
from traceanalyzer.structure.sums import count_by, group
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, UNKNOWN, Bool

_MESSAGES = frozenset({"send", "recv", "send_recv"})
_MESSAGE = "message"


class Meetings(msgspec.Struct, frozen=True):
    """Rows of the table in which ranks meet; columns have one entry per row of the table, -1 where it meets no rank."""

    meeting: I64
    """Number of the meeting of each row, 0..count-1."""
    position: I64
    """Rows of different ranks that do the same thing at the same place of a step have one number."""
    transfer_ns: I64
    """Time from the arrival of the last rank to the end."""
    count: int


def find(table: RankTable) -> Meetings:
    """Match all collectives and messages that several ranks have within steps."""
    pairs = _with_messages(table)
    candidates = matching.match(pairs)
    matched, offsets = clocks.check(table, candidates) if table.has_clocks else (candidates, {})
    matched = matched.only(_of_steps(table, matched))
    meeting, position, transfer = (np.full(len(table), UNKNOWN) for _ in range(3))
    meeting[matched.rows] = matched.collective
    position[matched.rows] = _positions(pairs, matched)
    transfer[matched.rows] = _transfer(table, matched, clocks.aligned(table, matched, offsets)[0])
    return Meetings(meeting, position, transfer, matched.count)


def _with_messages(table: RankTable) -> RankTable:
    """The table with messages of two ranks as mutual, and unequal parts, too, where no clock shows who came last."""
    kinds = tuple(_kind(kind, table.groups[kind.group]) for kind in table.kinds)
    return replace(table, kinds=kinds, has_clocks=True)


def _kind(kind: CollectiveKind, own: ProcessGroup) -> CollectiveKind:
    if kind.operation not in _MESSAGES or not is_pair(own):
        return kind
    return CollectiveKind(_MESSAGE, kind.group, kind.message_bytes, None, is_mutual=True)


def is_pair(own: ProcessGroup) -> bool:
    """Whether a group has two ranks."""
    return own.size == 2 or (own.size is None and len(re.findall(r"\d+", own.ranks or "")) == 2)


def _of_steps(table: RankTable, matched: Matched) -> Bool:
    """Meetings that all their ranks have called within a step."""
    outside = table.step[matched.rows] == UNKNOWN
    found: Bool = count_by(matched.collective[outside], matched.count) == 0
    return found


def _positions(table: RankTable, matched: Matched) -> I64:
    """For each matched row its position: operation, size of the group and number within the step of its rank.

    So ranks of parallel groups have the same positions. Where ranks have different numbers of an operation, only those
    that meet have.
    """
    rows = np.sort(matched.rows)
    if not len(rows):
        return rows
    names = sorted({(kind.operation or "", table.groups[kind.group].size or 0) for kind in table.kinds})
    codes = [names.index((kind.operation or "", table.groups[kind.group].size or 0)) for kind in table.kinds]
    operation, step, member = np.array(codes)[table.kind[rows]], table.step[rows], table.member[rows]
    first, cell = group(operation, step, member)
    counts = count_by(cell, len(first))
    _, place = group(operation, step)
    least, most = np.full(place.max() + 1, len(rows)), np.zeros(place.max() + 1, np.int64)
    np.minimum.at(least, place, counts[cell])
    np.maximum.at(most, place, counts[cell])
    order = np.argsort(cell, kind="stable")
    nth = np.empty(len(rows), np.int64)
    nth[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    meeting = np.full(len(table), UNKNOWN)
    meeting[matched.rows] = matched.collective
    alike = (least == most)[place]
    _, found = group(np.where(alike, UNKNOWN, meeting[rows]), np.where(alike, place, 0), np.where(alike, nth, 0))
    position = np.full(len(table), UNKNOWN)
    position[rows] = found
    return position[matched.rows]


def _transfer(table: RankTable, matched: Matched, start: I64) -> I64:
    """The shortest duration; if parts may be unequal and clocks are known, the time after the last start."""
    if not matched.count:
        return np.zeros(0, np.int64)
    dur, opens = table.dur_ns[matched.rows], matched.opens
    shortest = np.minimum.reduceat(dur, opens)[matched.collective]
    last = np.maximum.reduceat(start, opens)[matched.collective]
    unequal = np.clip(dur - (last - start), shortest, dur)
    return np.where(table.is_even[matched.rows] | (not table.has_clocks), shortest, unequal)


def has_few(table: RankTable, world_size: int | None) -> bool:
    """Whether less than half of the ranks of some group are there; where its size is unknown, of the run."""
    own = table.group
    here = [len(distinct(table.member[own == number])) for number in range(len(table.groups))]
    sizes = [known.size or world_size for known in table.groups]
    return any(size is not None and 0 < 2 * there < size for there, size in zip(here, sizes, strict=True))
