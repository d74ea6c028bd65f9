"""Processes: no more than fit, each failure its own file's, and no file lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batching.making import batch, population, trace, write
from traceanalyzer.batching import ReportOptions, machine, pool, processing
from traceanalyzer.batching.dispatch import Job, JobEnd, JobOutcome
from traceanalyzer.batching.pool import WorkerPool
from traceanalyzer.errors import UsageError

MIB = 1 << 20
real_process = processing.process


@pytest.fixture
def sabotage(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Job], None]], None]:
    """Workers that do something before each file; forked, so that they inherit it."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("processes cannot be forked here")

    def install(before: Callable[[Job], None]) -> None:
        def process(task: Job, progress: Callable[[int], None]) -> JobOutcome:
            before(task)
            return real_process(task, progress)

        monkeypatch.setattr(processing, "process", process)
        monkeypatch.setattr(pool, "context", lambda formats: multiprocessing.get_context("fork"))

    return install


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_file_that_kills_its_worker_fails_alone(tmp_path: Path, sabotage) -> None:  # type: ignore[no-untyped-def]
    def die(task: Job) -> None:
        if "deadly" in task.name:
            os.kill(os.getpid(), signal.SIGKILL)

    sabotage(die)
    source = population(tmp_path / "in", 20, 0)
    write(source / "deadly.json", trace())
    counts, told = batch(source, tmp_path / "out", jobs=2)
    assert (counts.done, counts.failed) == (20, 1)
    assert "SIGKILL twice, the second time alone" in told.failures["deadly.json"]
    assert told.ended[-1] == "deadly.json"
    assert told.bytes == told.total[1]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_worker_that_dies_once_costs_nothing(tmp_path: Path, sabotage) -> None:  # type: ignore[no-untyped-def]
    once = tmp_path / "once"

    def die(task: Job) -> None:
        if "unlucky" in task.name and not once.exists():
            once.touch()
            os._exit(3)

    sabotage(die)
    source = population(tmp_path / "in", 5, 0)
    write(source / "unlucky.json", trace())
    counts, _ = batch(source, tmp_path / "out", jobs=2)
    assert (counts.done, counts.failed) == (6, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_mistake_of_ours_costs_one_file(tmp_path: Path, sabotage) -> None:  # type: ignore[no-untyped-def]
    def fail(task: Job) -> None:
        if "odd" in task.name:
            object.__setattr__(task, "options", ReportOptions(formats=("no such format",)))

    sabotage(fail)
    source = population(tmp_path / "in", 3, 0)
    write(source / "odd.json", trace())
    counts, told = batch(source, tmp_path / "out")
    assert (counts.done, counts.failed) == (3, 1)
    assert "no such format" in told.failures["odd.json"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_that_cannot_start_end_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error does not depend on a file and would occur for all of them."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("processes cannot be forked here")
    monkeypatch.setattr(pool, "_serve", lambda connection: os._exit(5))
    monkeypatch.setattr(pool, "context", lambda formats: multiprocessing.get_context("fork"))
    with pytest.raises(UsageError, match="exit code 5 before its first file"):
        batch(population(tmp_path / "in", 3, 0), tmp_path / "out")


class Files:
    """A queue of estimates; what runs at the same time is written down."""

    def __init__(self, needs: list[int]) -> None:
        self.waiting = sorted(needs, reverse=True)
        self.running: dict[int, int] = {}
        self.most = self.most_files = 0
        self.done: list[int] = []
        self._number = 0

    def take(self, limit: int) -> tuple[Job, int] | None:
        fitting = [need for need in self.waiting if need <= limit]
        return self._begin(fitting[0]) if fitting else None

    def take_any(self) -> tuple[Job, int] | None:
        return self._begin(self.waiting[0]) if self.waiting else None

    def finish(self, file: int, outcome: JobOutcome) -> None:
        self.done.append(self.running.pop(file))

    def _begin(self, need: int) -> tuple[Job, int]:
        self.waiting.remove(need)
        self._number += 1
        self.running[self._number] = need
        self.most = max(self.most, sum(self.running.values()))
        self.most_files = max(self.most_files, len(self.running))
        return Job(self._number, "", "", 0, "", False, "", False, ReportOptions()), need


class Instantly:
    """A worker that is done at once."""

    def __init__(self, how: object) -> None:
        self.connection, self._theirs = multiprocessing.Pipe()
        self.busy_with: int | None = None
        self.reserved = 0

    def give(self, task: Job, reserved: int) -> bool:
        self.busy_with, self.reserved = task.id, reserved
        self._theirs.send((JobOutcome(JobEnd.DONE), False))
        return True

    def take(self) -> object:
        return self.connection.recv()

    def stop(self) -> None:
        close: list[Connection] = [self.connection, self._theirs]  # type: ignore[list-item]
        for connection in close:
            connection.close()


@given(
    needs=st.lists(st.integers(150 * MIB, 3000 * MIB), max_size=30),
    memory=st.integers(200 * MIB, 2500 * MIB),
    jobs=st.integers(1, 8),
)
def test_what_runs_together_fits_together(needs: list[int], memory: int, jobs: int) -> None:
    files = Files(needs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "BatchWorker", Instantly)
        WorkerPool(files, jobs, memory, multiprocessing.get_context()).run()  # type: ignore[arg-type]
    assert sorted(files.done) == sorted(needs), "every file is analyzed, however large"
    assert files.most <= max([memory, *needs], default=0)
    assert files.most_files <= jobs
    larger = [need for need in needs if need > memory]
    if larger and len(larger) == len(needs):
        assert files.most_files == 1, "what does not fit runs alone"


def test_the_number_of_processes_fits_the_memory() -> None:
    assert pool.processes(8, 10 * machine.PROCESS_BYTES) == 8
    assert pool.processes(8, 3 * machine.PROCESS_BYTES) == 3
    assert pool.processes(8, 1) == 1
    assert pool.processes(None, 1 << 50) >= 1
