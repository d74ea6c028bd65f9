"""Which collectives of different ranks are one and the same?

By their number within the process group, where it is recorded. Else by order: the i-th of its kind (operation, group,
size) within the step that called it, where all ranks have equally many of the kind. Sizes do not count where parts may
be unequal: then each rank has its own.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind
from traceanalyzer.analyzers.ranks.table import RankTable
from traceanalyzer.structure.sums import count_by, group
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I64, UNKNOWN, Bool


class Matched(msgspec.Struct, frozen=True):
    """Rows of collectives that several ranks have."""

    rows: I64
    """Ordered by collective, then by duration (by waiting after `waits`): the rank that came last is the first of its
    collective."""
    collective: I64
    """Number of the collective of each row, 0..count-1."""
    count: int
    by_sequence: Bool
    """Whether each row was matched by its recorded number."""

    @property
    def opens(self) -> I64:
        """Where each collective begins."""
        return np.searchsorted(self.collective, np.arange(self.count))

    def ordered(self, order: I64) -> Matched:
        """Put the rows into another order; each stays within its collective."""
        return Matched(self.rows[order], self.collective[order], self.count, self.by_sequence[order])

    def only(self, kept: Bool) -> Matched:
        """Keep some of the collectives."""
        chosen = kept[self.collective]
        number = np.cumsum(kept) - 1
        return Matched(self.rows[chosen], number[self.collective[chosen]], int(kept.sum()), self.by_sequence[chosen])


def match(table: RankTable, *, same_shapes: bool = False) -> Matched:
    """All collectives that at least two ranks have.

    Args:
        table: The collectives of all ranks.
        same_shapes: Whether those of unequal parts are only matched if their shapes are the same on all ranks.
    """
    mutual = table.is_mutual
    numbered = np.flatnonzero(mutual & (table.sequence != UNKNOWN))
    ordered = np.flatnonzero(mutual & (table.sequence == UNKNOWN) & (table.step != UNKNOWN))
    alike = table.kind if same_shapes else _alike(table)
    ordered = _equally_many(table, alike, ordered)
    parts = [
        (numbered, _occurrence(table, numbered, table.group, _operation(table), table.sequence)),
        (ordered, _occurrence(table, ordered, alike, table.step)),
    ]
    rows = np.concatenate([rows for rows, _ in parts])
    keys = np.concatenate([parts[0][1], parts[1][1] + (parts[0][1].max(initial=-1) + 1)])
    ranks = count_by(keys, int(keys.max(initial=-1)) + 1)
    shared = ranks[keys] > 1
    rows, keys = rows[shared], ranked(keys[shared])[1]
    order = np.lexsort((table.member[rows], table.dur_ns[rows], keys))
    rows = rows[order]
    return Matched(rows, keys[order], int(keys.max(initial=-1)) + 1, table.sequence[rows] != UNKNOWN)


def _operation(table: RankTable) -> I64:
    """A code for the operation of each row: two operations may share a number (coalesced calls)."""
    names = sorted({kind.operation or "" for kind in table.kinds})
    found: I64 = np.array([names.index(kind.operation or "") for kind in table.kinds] or [0], np.int64)[table.kind]
    return found


def _alike(table: RankTable) -> I64:
    """A code for what the rows of one collective have in common on all ranks; of unequal parts not the shapes."""
    pool: StringPool[CollectiveKind] = StringPool()
    codes = [pool.encode(kind if kind.is_even else replace(kind, shapes=None)) for kind in table.kinds]
    found: I64 = np.array(codes or [0], np.int64)[table.kind]
    return found


def _equally_many(table: RankTable, alike: I64, rows: I64) -> I64:
    """Leave out those of which some rank has more than another within a step: it is unknown which is missing."""
    if not len(rows):
        return rows
    first, cell = group(alike[rows], table.step[rows], table.member[rows])
    counts = count_by(cell, len(first))
    _, kind = group(alike[rows][first], table.step[rows][first])
    least, most = np.full(kind.max() + 1, np.iinfo(np.int64).max), np.zeros(kind.max() + 1, np.int64)
    np.minimum.at(least, kind, counts)
    np.maximum.at(most, kind, counts)
    kept: I64 = rows[(least == most)[kind[cell]]]
    return kept


def _occurrence(table: RankTable, rows: I64, *keys: I64) -> I64:
    """One number for rows of the same keys that are the n-th of these keys on their rank."""
    if not len(rows):
        return rows
    _, cell = group(table.member[rows], *(key[rows] for key in keys))
    order = np.argsort(cell, kind="stable")
    opens = np.flatnonzero(np.append(True, np.diff(cell[order]) > 0))
    lengths = np.diff(np.append(opens, len(rows)))
    nth = np.empty(len(rows), np.int64)
    nth[order] = np.arange(len(rows)) - np.repeat(opens, lengths)
    _, found = group(*(key[rows] for key in keys), nth)
    return found
