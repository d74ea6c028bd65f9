"""Runs the files of a batch in processes of this machine, as many as cores and memory allow."""

from __future__ import annotations

from multiprocessing.connection import wait
from multiprocessing.context import BaseContext

from traceanalyzer.batching import estimate, machine
from traceanalyzer.batching.dispatch import Dispatch
from traceanalyzer.batching.worker import BatchWorker, Read, Ready
from traceanalyzer.errors import UsageError

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
        return estimate.parse_size(limit, available)
    return _UNKNOWN_MEMORY if available is None else int(available * (1 - _RESERVE_SHARE))


def processes(jobs: int | None, memory: int) -> int:
    """Number of workers; at most as many as fit into memory with small files."""
    return max(1, min(jobs or machine.cores(), memory // estimate.PROCESS_BYTES))


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
        while len(self._busy()) < self._jobs and (found := self._queue.take(self._room())):
            self._give(*found)
        if not self._busy() and (found := self._queue.take_any()):
            self._retire()
            self._give(*found)
        return bool(self._busy())

    def _busy(self) -> list[BatchWorker]:
        return [worker for worker in self._workers if worker.busy_with is not None]

    def _room(self) -> int:
        """Bytes of memory that are free for one more file; an idle worker is used if there is one."""
        idle = len(self._workers) - len(self._busy())
        return self._memory - sum(w.reserved for w in self._busy()) - max(0, idle - 1) * estimate.IDLE_BYTES

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
