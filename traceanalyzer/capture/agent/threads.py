"""How long threads run and wait for a core, and what other threads of Python do beside the one that makes the steps.

Python runs in one thread at a time, the one that holds the global interpreter lock (GIL). A thread that wants it waits
until the holder waits for something, or for `sys.getswitchinterval()`, which is 5 ms.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from .facts import place

_SCHEDULED = "/proc/thread-self/schedstat"
"""Times of a thread in ns: on a core, and waiting for one (Documentation/scheduler/sched-stats.rst of Linux)."""
_PER_THREAD = 6
"""Low bits of the id of a clock of one thread's time on a core (`MAKE_THREAD_CPUCLOCK` of Linux)."""
_STARTERS = (os.sep + "threading.py", os.sep + os.path.join("concurrent", "futures", "thread.py"))  # noqa: PTH118 - text
"""Files of the standard library whose functions only begin a thread."""
_ASKED = 3
"""How often the lock is asked for at the end of a step."""
_SHOWN = 3
"""Number of threads whose functions are told."""


def scheduled_ns() -> tuple[int, int] | None:
    """Times in ns of this thread: on a core, and ready to run without one; None where the system does not count.

    The time on a core is that of the thread's own clock. The system's table has it, too, but as of the last tick.
    """
    on_core = time.thread_time_ns()
    counted = read_schedule(_SCHEDULED)
    return None if counted is None else (on_core, counted[1])


def read_schedule(path: str) -> tuple[int, int] | None:
    """Times in ns of a thread as of the last tick: on a core, and ready without one; None where they are not counted.

    Args:
        path: The file of the thread.
    """
    try:
        opened = os.open(path, os.O_RDONLY)
        try:
            counted, queued, _ = os.read(opened, 100).split()
        finally:
            os.close(opened)
    except (OSError, ValueError):
        return None
    return (int(counted), int(queued)) if int(counted) else None  # a kernel that does not count shows only zeros


class OtherThreads:
    """Measures the other threads of Python from the end of one step to the end of the next.

    Args:
        project: Folder of the project; paths in it are kept, relative to it.
    """

    def __init__(self, project: str) -> None:
        self._project = project
        self._before: dict[int, int] = {}
        self._times: Counter[str] = Counter()
        self._waits: list[int] = []

    def lap(self, *, is_recorded: bool) -> int | None:
        """Time in ns since the last call in which other threads ran or were ready to; None if it cannot be known.

        Args:
            is_recorded: Whether the names of their functions are kept.
        """
        now: dict[int, int] = {}
        for thread in _others():
            found = _ran_ns(thread.native_id)
            if found is None:
                return None
            now[thread.native_id or 0] = found
        added = {thread: ns - self._before.get(thread, ns) for thread, ns in now.items()}
        self._before = now
        if is_recorded and any(added.values()):
            self._name(added)
        return sum(added.values())

    def _name(self, added: dict[int, int]) -> None:
        frames = sys._current_frames()
        for thread in _others():
            frame, ns = frames.get(thread.ident or 0), added.get(thread.native_id or 0, 0)
            if frame is not None and ns:
                code = _begun(frame)
                self._times[place(code, self._project)] += ns

    def ask_for_lock(self) -> None:
        """Give the lock away and ask for it again, and keep how long that took, where other threads may have it."""
        if not _others():
            return
        for _ in range(_ASKED):
            before, start = scheduled_ns(), time.perf_counter_ns()
            time.sleep(0)
            end, after = time.perf_counter_ns(), scheduled_ns()
            if before is not None and after is not None:
                self._waits.append(max(0, end - start - (after[0] - before[0]) - (after[1] - before[1])))

    def facts(self) -> dict[str, Any]:
        """What the threads ran, and how long the lock was waited for, in the form that the trace contains."""
        threads = [{"function": function, "ns": ns} for function, ns in self._times.most_common(_SHOWN)]
        return {"threads": threads, "lock_wait_ns": round(statistics.fmean(self._waits)) if self._waits else None}


def _others() -> list[threading.Thread]:
    own = threading.get_ident()
    if threading.active_count() < 2:
        return []
    return [thread for thread in threading.enumerate() if thread.ident != own and thread.native_id]


def _ran_ns(native: int | None) -> int | None:
    """Time in ns in which a thread ran or was ready to run; None where the system has no such clock."""
    if not sys.platform.startswith("linux") or native is None:
        return None
    try:
        ran = time.clock_gettime_ns((~native << 3) | _PER_THREAD)
    except OSError:  # it has ended
        return 0
    schedule = read_schedule(f"/proc/self/task/{native}/schedstat")
    return ran + (schedule[1] if schedule is not None else 0)


def _begun(frame: FrameType) -> CodeType:
    """The function that a thread began with, except those that only begin threads."""
    found = frame.f_code
    above: FrameType | None = frame
    while above is not None:
        if not above.f_code.co_filename.endswith(_STARTERS):
            found = above.f_code
        above = above.f_back
    return found
