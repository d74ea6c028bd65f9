"""Codes of what repeats from event to event, looked up by the part that differs."""

from __future__ import annotations

from typing import Any

from traceanalyzer.trace.strings import StringPool


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


class ThreadsOfProcess(dict[Any, int]):
    """Codes of the threads of a process, found as they occur: to look up one id is cheaper than to look up a pair."""

    def __init__(self, pool: StringPool[tuple[Any, Any]], pid: Any) -> None:
        super().__init__()
        self._pool, self._pid = pool, pid

    def __missing__(self, tid: Any) -> int:
        code = self[tid] = self._pool.encode((self._pid, tid))
        return code
