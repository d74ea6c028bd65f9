"""Codes of what repeats from event to event: threads, and categories, whose events are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from traceanalyzer.readers.kineto.events import Event, is_general
from traceanalyzer.readers.kineto.fields import BY_CONTENT, OLD, TableGroup, classify
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I32, I64


class CodesOfTypes(dict[Any, int]):
    """Codes of the categories of the types that events are decoded to, found as they occur."""

    def __init__(self, categories: StringPool[str]) -> None:
        super().__init__()
        self._categories = categories

    def __missing__(self, kind: Any) -> int:
        code = self[kind] = self._categories.encode(kind.cat)
        return code


class ThreadsOfProcesses(dict[Any, "ThreadsOfProcess"]):
    """For each process the codes of its threads."""

    def __init__(self, pool: StringPool[tuple[Any, Any]]) -> None:
        super().__init__()
        self._pool = pool

    def __missing__(self, pid: Any) -> ThreadsOfProcess:
        threads = self[pid] = ThreadsOfProcess(self._pool, pid)
        return threads

    def codes(self, events: Sequence[Event]) -> I32:
        """Codes of the threads of some events."""
        pids, tids = [e.pid for e in events], [e.tid for e in events]
        try:
            if pids and pids.count(pids[0]) == len(pids):  # nearly always
                return np.fromiter(map(self[pids[0]].__getitem__, tids), np.int32, len(tids))
            return self.codes_of(zip(pids, tids, strict=True), len(events))
        except TypeError:  # a list or an object where an id belongs
            return self.codes_of(((str(e.pid), str(e.tid)) for e in events), len(events))

    def codes_of(self, keys: Iterable[tuple[Any, Any]], length: int) -> I32:
        """Codes of this many threads; one process may be written as `1` and as `1.0`, and counts as it came first."""
        return np.fromiter((self[pid][tid] for pid, tid in keys), np.int32, length)


class ThreadsOfProcess(dict[Any, int]):
    """Codes of the threads of a process, found as they occur: to look up one id is cheaper than to look up a pair."""

    def __init__(self, pool: StringPool[tuple[Any, Any]], pid: Any) -> None:
        super().__init__()
        self._pool, self._pid = pool, pid

    def __missing__(self, tid: Any) -> int:
        code = self[tid] = self._pool.encode((self._pid, tid))
        return code


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
        """Count events by category.

        Args:
            events: Events of one window.

        Returns:
            For each event the code of its category, which is the position in `names`.
        """
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
        if len(self._pool) == len(self.groups):
            return
        new = self.names[len(self.groups) :]
        for name in new:
            group, category = classify(name)
            self.groups.append(group)
            self.normalized.append(0 if category is None else category)
            self.by_content.append(name.lower() in BY_CONTENT)
        self.counts = np.append(self.counts, np.zeros(len(new), np.int64))
