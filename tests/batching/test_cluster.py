"""A batch on a real Dask scheduler with real workers: processes of this machine that talk over loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.batching.making import batch, population, reports, tree
from tests.cli.running import PATIENCE_S, PROGRAM, ROOT, environment, spawn
from traceanalyzer.batching import cluster
from traceanalyzer.errors import UsageError

pytestmark = [
    pytest.mark.skipif(not find_spec("distributed"), reason="distributed is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def program(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Dask, which is ended with its children."""
    started = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])),
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def worker(address: str, name: str) -> tuple[str, ...]:
    return (
        "distributed.cli.dask_worker", address, "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard",
        "--memory-limit", "2GB", "--host", "127.0.0.1",
    )  # fmt: skip


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    with program(
        "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", folder=tmp_path
    ):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < end, "the scheduler does not answer"
                time.sleep(0.05)
        yield f"tcp://127.0.0.1:{port}"


def test_a_cluster_writes_what_this_machine_writes(tmp_path: Path, scheduler: str) -> None:
    source = population(tmp_path / "in", 20, 4)
    with program(*worker(scheduler, "one"), folder=tmp_path), program(*worker(scheduler, "two"), folder=tmp_path):
        run = spawn("batch", source, "-o", tmp_path / "far", "--format", "json", "--cluster", scheduler)
    assert run.code == 1, run.err
    assert "20 analyzed, 4 failed" in run.err
    batch(source, tmp_path / "here")
    assert tree(tmp_path / "far") == tree(tmp_path / "here")


def test_a_lost_worker_loses_nothing(tmp_path: Path, scheduler: str) -> None:
    """One of two workers is killed while it works; the other one does its files, too."""
    source = population(tmp_path / "in", 120, 0)
    with program(*worker(scheduler, "one"), folder=tmp_path) as first:
        started = subprocess.Popen(
            [*PROGRAM, "batch", str(source), "-o", str(tmp_path / "far"), "--format", "json", "--cluster", scheduler],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=ROOT,
        )
        end = time.monotonic() + PATIENCE_S
        while len(reports(tmp_path / "far")) < 5:
            assert started.poll() is None, started.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)
        with program(*worker(scheduler, "two"), folder=tmp_path):
            first.kill()
            at_the_kill = len(reports(tmp_path / "far"))
            _, err = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 0, err
    assert at_the_kill < 120, "the worker was killed while there was work"
    batch(source, tmp_path / "here")
    assert tree(tmp_path / "far") == tree(tmp_path / "here")


def test_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.5)
    source = population(tmp_path / "in", 1, 0)
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        batch(source, tmp_path / "out", cluster=f"tcp://127.0.0.1:{free_port()}")


def test_no_worker(tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_S", 3)
    source = population(tmp_path / "in", 1, 0)
    with pytest.raises(UsageError, match="has no worker"):
        batch(source, tmp_path / "out", cluster=scheduler)
