"""Codes of what repeats from event to event, looked up by the part that differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from traceanalyzer.readers.kineto.events import Event
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I32


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
