"""A process that analyzes files for a batch: the parent side, the worker side, and the pipe between them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from types import ModuleType
from typing import Any

from traceanalyzer.batching.job import Job, JobOutcome
from traceanalyzer.processes import no_interrupts

_RECYCLE_TASKS = 200
_RECYCLE_BYTES = 384 << 20
"""Peak memory in bytes beyond which a worker is replaced, because a process rarely returns memory to the system."""

_TELL_S = 0.2


@dataclass(frozen=True, slots=True)
class Read:
    """Message of the worker: number of bytes read since its last message."""

    size: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Message of the worker that it has started; if it dies later, its file is the cause."""


def context(formats: Sequence[str]) -> BaseContext:
    """The start method of workers: they are forked from a server that has imported all modules, which is fast.

    The server starts here, in parallel with the caller.

    Args:
        formats: Formats of the reports that workers write.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(
        ["traceanalyzer.batching.processing", *(f"traceanalyzer.formats.{name}" for name in formats)]
    )
    with no_interrupts(), _no_main():
        import_module("multiprocessing.forkserver").ensure_running()
    return server


@contextmanager
def _no_main() -> Iterator[None]:
    """Keep processes that start here from running the caller's main script again, because workers do not need it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class BatchWorker:
    """The parent side of a worker: its process and its current file."""

    def __init__(self, how: BaseContext) -> None:
        self.connection, theirs = how.Pipe()
        self.process: Any = how.Process(target=_serve, args=(theirs,), daemon=True)  # type: ignore[attr-defined]
        with _no_main():
            self.process.start()
        theirs.close()
        self.is_ready = False
        self.busy_with: int | None = None
        self.reserved = 0
        """Bytes of memory reserved for its file."""

    def give(self, task: Job, reserved: int) -> bool:
        """Send it a file to analyze. Returns False if it has died since its last file."""
        try:
            self.connection.send(task)
        except OSError:
            return False
        self.busy_with, self.reserved = task.id, reserved
        return True

    def take(self) -> Ready | Read | tuple[JobOutcome, bool]:
        """Receive its next message: started, bytes read, or an outcome with whether the worker should be replaced.

        Raises:
            EOFError: The worker died.
        """
        try:
            return self.connection.recv()  # type: ignore[no-any-return]
        except OSError:  # it died while it sent a message
            raise EOFError from None

    def ending(self) -> str:
        """How the process died, in one line."""
        self.process.join()
        code = self.process.exitcode or 0
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def stop(self) -> None:
        """Kill the process at once, which is safe because files are written atomically."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def _serve(connection: Connection) -> None:
    """Main loop of the worker: analyze one file after another until the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from traceanalyzer.batching import processing  # noqa: PLC0415 - only the worker needs numpy

    done = 0
    with contextlib.suppress(EOFError, OSError):
        connection.send(Ready())
        while True:
            task = connection.recv()
            tell = _ReadReporter(connection)
            outcome = processing.process(task, tell.read)
            done += 1
            connection.send((outcome, done >= _RECYCLE_TASKS or _peak_bytes() > _RECYCLE_BYTES))


def _end_with_parent() -> None:
    """Make the worker end when the parent is killed without notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class _ReadReporter:
    """Reports to the parent how much has been read, at limited frequency."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._size = 0
        self._last = time.monotonic()

    def read(self, size: int) -> None:
        self._size += size
        if time.monotonic() - self._last >= _TELL_S:
            self._connection.send(Read(self._size))
            self._size, self._last = 0, time.monotonic()


def _peak_bytes() -> int:
    """Peak memory of this process in bytes; 0 if the system does not report it."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
