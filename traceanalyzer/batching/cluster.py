"""Runs the files of a batch on the workers of a Dask cluster (https://distributed.dask.org).

A worker does the same as a local worker process: it reads the input, writes the reports and the record, and sends
the record back. When a worker is lost, only its current file is affected, and the scheduler gives it to another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from traceanalyzer._version import __version__
from traceanalyzer.batching.dispatch import Dispatch, Job, JobEnd, JobOutcome
from traceanalyzer.errors import MissingDependencyError, UsageError

_PATIENCE_S = 30
"""Seconds to wait for the scheduler, and for its first worker."""

_USABLE = 0.7
"""Share of a worker's memory to fill; beyond it, Dask pauses the worker (`distributed.worker.memory.pause`)."""


@dataclass
class _Slots:
    """Threads and memory of the workers that are connected now."""

    threads: int
    largest: int
    """Memory in bytes that one file may use on the largest worker."""
    memory: int


def run(queue: Dispatch, address: str) -> None:
    """Analyze every file of a queue on a cluster.

    Raises:
        MissingDependencyError: dask.distributed is not installed.
        UsageError: No scheduler answers, it has no worker, or a worker has another version of this program.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise MissingDependencyError("dask.distributed", extra="distributed") from None
    client = _connect(distributed, address)
    try:
        _require_same_version(client, address)
        _work_through(distributed, client, queue, address)
    finally:
        client.close()


def _connect(distributed: Any, address: str) -> Any:
    try:
        client = distributed.Client(address, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(f"{address}: no Dask scheduler answers: {error}") from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError:
        client.close()
        raise UsageError(f"{address}: the scheduler has no worker; start one: dask worker {address}") from None
    return client


def _require_same_version(client: Any, address: str) -> None:
    """Refuse workers with another version of this program, which would write other reports."""
    try:
        versions = client.run(_version)
    except Exception as error:
        raise UsageError(f"{address}: traceanalyzer is not installed on every worker: {error}") from None
    for worker, version in sorted(versions.items()):
        if version != __version__:
            raise UsageError(f"{address}: worker {worker} has traceanalyzer {version}, and this is {__version__}")


def _version() -> str:
    return __version__


def _analyze(task: Job) -> JobOutcome:
    """Analyze one file; this function runs on a worker."""
    from traceanalyzer.batching import processing  # noqa: PLC0415 - only the worker needs numpy

    return processing.process(task, lambda _: None)


def _work_through(distributed: Any, client: Any, queue: Dispatch, address: str) -> None:
    """Analyze all files, and never send more at a time than fits into the memory of the workers."""
    running: dict[Any, tuple[Job, int]] = {}
    ended = distributed.as_completed(loop=client.loop)
    while True:
        slots = _slots(client)
        while len(running) < slots.threads:
            room = slots.memory - sum(need for _, need in running.values())
            job = queue.take(min(room, slots.largest)) or (None if running else queue.take_any())
            if job is None:
                break
            task, need = job
            future = client.submit(_analyze, task, key=f"traceanalyzer-{task.fingerprint}", pure=False)
            running[future] = task, need
            ended.add(future)
        if not running:
            return
        future = next(ended)
        task, _ = running.pop(future)
        queue.finish(task.id, _outcome(future, address))


def _slots(client: Any) -> _Slots:
    """Threads (at least one) and memory of the connected workers; the scheduler keeps jobs while there is none."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    shares = [int((worker["memory_limit"] or 1 << 62) * _USABLE) for worker in workers]
    return _Slots(max(1, sum(int(worker["nthreads"]) for worker in workers)), max(shares, default=0), sum(shares))


def _outcome(future: Any, address: str) -> JobOutcome:
    try:
        error = future.exception()
    except Exception as lost:  # cancelled because the scheduler is gone
        raise UsageError(f"{address}: the scheduler was lost ({lost}); run the same command again to resume") from None
    if error is None:
        return future.result()  # type: ignore[no-any-return]
    return JobOutcome(JobEnd.FAILED, reason=f"its workers were lost: {type(error).__name__}: {error}")
