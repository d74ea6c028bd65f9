"""Runs the files of a batch in processes of this machine, as many as cores and memory allow."""

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

from traceanalyzer.batching import machine
from traceanalyzer.batching.dispatch import Dispatch, Job, JobOutcome
from traceanalyzer.errors import UsageError
from traceanalyzer.processes import no_interrupts, own_imports

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
    with no_interrupts(), own_imports(), _no_main():
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
        with own_imports(), _no_main():
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


_RESERVE_SHARE = 0.2
"""Share of the available memory that is left to other programs."""

_UNKNOWN_MEMORY = 4 << 30
"""Bytes of memory to assume if the system does not report it."""


def budget(limit: str | None) -> int:
    """Memory in bytes that all workers together may use.

    Raises:
        UsageError: The limit is not a size.
    """
    available = machine.available_memory()
    if limit is not None:
        return machine.parse_size(limit, available)
    return _UNKNOWN_MEMORY if available is None else int(available * (1 - _RESERVE_SHARE))


def processes(jobs: int | None, memory: int) -> int:
    """Number of workers; at most as many as fit into memory with small files."""
    return max(1, min(jobs or machine.cores(), memory // machine.PROCESS_BYTES))


class WorkerPool:
    """Runs the files of a queue in processes until none is left."""

    def __init__(self, queue: Dispatch, jobs: int, memory: int, how: BaseContext) -> None:
        self._queue, self._jobs, self._memory = queue, jobs, memory
        self._context = how
        self._workers: list[BatchWorker] = []

    def run(self) -> None:
        """Analyze all files; when this returns or raises, no process is left.

        Raises:
            UsageError: Workers cannot even start.
        """
        try:
            while self._start():
                for ready in wait([worker.connection for worker in self._busy()]):
                    worker = next(worker for worker in self._workers if worker.connection is ready)
                    self._hear(worker)
        finally:
            for worker in self._workers:
                worker.stop()

    def _start(self) -> bool:
        """Start every file that fits into memory. Returns False if no file is running.

        The largest file that fits starts first, so that no large file is left for the end. A file larger than all
        memory, and a file whose worker died, waits until it can run alone.
        """
        while len(self._busy()) < self._jobs and (job := self._queue.take(self._room())):
            self._give(*job)
        if not self._busy() and (job := self._queue.take_any()):
            self._retire()
            self._give(*job)
        return bool(self._busy())

    def _busy(self) -> list[BatchWorker]:
        return [worker for worker in self._workers if worker.busy_with is not None]

    def _room(self) -> int:
        """Bytes of memory that are free for one more file; an idle worker is used if there is one."""
        idle = len(self._workers) - len(self._busy())
        return self._memory - sum(w.reserved for w in self._busy()) - max(0, idle - 1) * machine.IDLE_BYTES

    def _give(self, task: object, reserved: int) -> None:
        while True:
            worker = next((worker for worker in self._workers if worker.busy_with is None), None)
            if worker is None:
                worker = BatchWorker(self._context)
                self._workers.append(worker)
            if worker.give(task, reserved):  # type: ignore[arg-type]
                return
            self._require_ready(worker)
            self._drop(worker)

    def _hear(self, worker: BatchWorker) -> None:
        file = worker.busy_with
        if file is None:
            return
        try:
            message = worker.take()
        except EOFError:
            self._require_ready(worker)
            self._queue.crash(file, worker.ending())
            self._drop(worker)
            return
        if isinstance(message, Ready):
            worker.is_ready = True
            return
        if isinstance(message, Read):
            self._queue.read(file, message.size)
            return
        outcome, is_worn = message
        self._queue.finish(file, outcome)
        worker.busy_with, worker.reserved = None, 0
        if is_worn:
            self._drop(worker)

    def _require_ready(self, worker: BatchWorker) -> None:
        """Stop the batch if a worker died before its first file, because the next one would die too."""
        if not worker.is_ready:
            raise UsageError(f"a worker process {worker.ending()} before its first file; see above") from None

    def _retire(self) -> None:
        """Stop all workers, so that all memory is free for the next file."""
        for worker in list(self._workers):
            self._drop(worker)

    def _drop(self, worker: BatchWorker) -> None:
        self._workers.remove(worker)
        worker.stop()
