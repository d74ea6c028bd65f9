"""The categories in the file, the kind of each, and its number of events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traceanalyzer.readers.kineto import accelerators
from traceanalyzer.readers.kineto.categories import OLD, TableGroup, classify
from traceanalyzer.readers.kineto.codes import CodesOfTypes
from traceanalyzer.readers.kineto.events import Event, is_general
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I32, I64


class CategoryCounts:
    """Gives the categories of events codes, in the order of their first appearance, and counts the events of each."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        """By code: the table group of the category."""
        self.normalized: list[int] = []
        """By code: the normalized category; 0 if there is none."""
        self.by_content: list[bool] = []
        """By code: whether some of its events are those of devices, which only their content shows."""
        self.counts: I64 = np.zeros(0, np.int64)
        """By code: the number of events."""
        self._pool: StringPool[str] = StringPool()
        self._codes_of_types = CodesOfTypes(self._pool)

    def codes(self, events: Sequence[Event]) -> I32:
        """Codes of the categories of events, which are counted."""
        if is_general(events):
            codes = self._pool.codes([event.cat for event in events], len(events))
        else:
            codes = np.fromiter(map(self._codes_of_types.__getitem__, map(type, events)), np.int32, len(events))
        self._classify_new()
        self.counts += np.bincount(codes, minlength=len(self.groups))
        return codes

    def add(self, names: Sequence[str], counts: I64) -> None:
        """Count events of which only the number by category is known.

        Args:
            names: Distinct categories.
            counts: The number of events of each.
        """
        codes = self._pool.codes(names, len(names))
        self._classify_new()
        self.counts[codes] += counts

    @property
    def names(self) -> list[str]:
        """The categories, by code."""
        return self._pool.values()

    @property
    def unsupported(self) -> dict[str, int]:
        """Number of events by category that were set aside because nothing here understands them."""
        counts = zip(self.names, self.groups, self.counts.tolist(), strict=True)
        return {name: count for name, group, count in counts if group == TableGroup.UNKNOWN}

    @property
    def has_old(self) -> bool:
        """Whether operators have the category that torch gave them until 1.11."""
        counts = zip(self.names, self.counts.tolist(), strict=True)
        return any(count and name in OLD for name, count in counts)

    def _classify_new(self) -> None:
        new = self.names[len(self.groups) :]
        for name in new:
            group, category = classify(name)
            self.groups.append(group)
            self.normalized.append(0 if category is None else category)
            self.by_content.append(name.lower() in accelerators.BY_CONTENT)
        self.counts = np.append(self.counts, np.zeros(len(new), np.int64))
