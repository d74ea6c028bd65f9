"""Exact sums of integers by group, and columns of equal length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Self

import msgspec
import numpy as np

from traceanalyzer.trace.distinct import ranked, stable_order
from traceanalyzer.trace.table import I64, Array


def sum_by(groups: Array, values: I64, count: int) -> I64:
    """The sum of the values of each group 0..count-1, exactly."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    return sums


def count_by(groups: Array, count: int) -> I64:
    """How many members each group 0..count-1 has."""
    return np.bincount(groups, minlength=count).astype(np.int64)


def least_by(groups: Array, values: I64, count: int) -> I64:
    """The least value of each group 0..count-1; the greatest number of 64 bits for a group without members."""
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, groups, values)
    return least


def most_by(groups: Array, values: I64, count: int) -> I64:
    """The greatest value of each group 0..count-1, none of which is negative; 0 for a group without members."""
    most = np.zeros(count, np.int64)
    np.maximum.at(most, groups, values)
    return most


def members(groups: Array) -> Iterator[tuple[int, I64]]:
    """Each group that has members, ascending, and its rows in their order."""
    order = stable_order(groups)
    bounds = np.flatnonzero(np.diff(groups[order])) + 1
    for rows in np.split(order, bounds) if len(order) else ():
        yield int(groups[rows[0]]), rows


def rows_by(groups: Array) -> Callable[[int], I64]:
    """A function from a group to its rows in their order, none for one without members.

    A loop over groups that looks through all rows for each takes hours for a program of 100,000 threads.
    """
    found, none = dict(members(groups)), np.empty(0, np.int64)
    return lambda number: found.get(number, none)


def group(*keys: Array) -> tuple[I64, I64]:
    """Group rows that agree in all keys.

    Returns:
        The first row of each group, and the group of each row; groups are in the order of the keys' values.
    """
    found, groups = ranked(keys[0])
    for key in keys[1:]:
        values, ranks = ranked(key)
        if len(values) > 1:
            found, groups = ranked(groups * len(values) + ranks)
    return first_rows(groups, len(found)), groups


def first_rows(groups: I64, count: int) -> I64:
    """The first row of each group 0..count-1, all of which have members."""
    first = np.empty(count, np.int64)
    first[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)  # of the rows of a group, the last one written stays
    return first


class Columns(msgspec.Struct, frozen=True):
    """Base of structs whose fields are arrays of one length, with an entry for each row."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))

    def take(self, rows: Array | slice) -> Self:
        """Some of the rows, by their numbers or by a mask."""
        where = np.flatnonzero(rows) if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ else rows
        return type(self)(*(getattr(self, name)[where] for name in self.__struct_fields__))

    @classmethod
    def join(cls, parts: Iterable[Self]) -> Self:
        """The rows of at least one part, one part after the other."""
        return cls(*map(np.concatenate, zip(*map(msgspec.structs.astuple, parts), strict=True)))
