"""A batch that is killed or interrupted goes on where it was, and leaves nothing half-written."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batching.conftest import Finished
from tests.batching.making import batch, reports, tree
from tests.cli.running import PATIENCE_S, PROGRAM, ROOT, environment
from traceanalyzer.batching import Progress, ReportOptions, Request
from traceanalyzer.batching.catalog import Counts
from traceanalyzer.batching.run import run
from traceanalyzer.inputs.storage import STATE

JOBS = 2


def start(source: Path, target: Path) -> subprocess.Popen[bytes]:
    """A batch as a program, in its own process group."""
    return subprocess.Popen(
        [*PROGRAM, "batch", str(source), "-o", str(target), "--format", "json", "--jobs", str(JOBS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
    )


def wait_for_reports(program: subprocess.Popen[bytes], target: Path, count: int) -> None:
    """Until so many reports are there; a program that ends before fails the test."""
    end = time.monotonic() + PATIENCE_S
    while len(reports(target)) < count:
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < end, "no report appears"
        time.sleep(0.01)


def processes_of(session: int) -> list[int]:
    """Processes of a session that are still there (Linux)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        state, _, _, its_session = rest.split()[:4]
        if int(its_session) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_killed_at_a_random_moment(finished: Finished, tmp_path: Path) -> None:
    """kill -9, several times; the last run has the bytes of one that was left alone."""
    source = finished.source
    chance = random.Random(8)
    target = tmp_path / "out"
    for _ in range(3):
        already = len(reports(target))
        program = start(source, target)
        wait_for_reports(program, target, min(finished.good - 20, already + chance.randint(1, finished.good // 4)))
        program.kill()
        program.communicate()
        for report in reports(target):
            json.loads((target / report).read_bytes())  # whole, or not there
        end = time.monotonic() + PATIENCE_S
        while processes_of(program.pid):
            assert time.monotonic() < end, "workers outlive the program"
            time.sleep(0.01)
    counts, told = batch(source, target)
    assert counts.recalled > 0
    assert counts.done == finished.good
    assert len(told.ended) < finished.good, "only what is missing was done"
    assert tree(target) == tree(finished.target)


def test_interrupted_by_the_user(finished: Finished, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of the terminal: exit code 130, no traceback, no process left."""
    source, target = finished.source, tmp_path / "out"
    program = start(source, target)
    wait_for_reports(program, target, 5)
    os.killpg(program.pid, signal.SIGINT)
    _, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 130
    assert b"Traceback" not in err
    assert not list(target.rglob(".traceanalyzer-*"))
    counts, _ = batch(source, target)
    assert 5 - JOBS <= counts.recalled < counts.done == finished.good, (
        "a record follows its report: each worker may owe one"
    )
    assert (target / STATE).is_dir()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_resumed_batch_writes_what_a_fresh_one_writes(fresh: Path, tmp_path: Path, jobs: int) -> None:
    """Whichever files were done before, and in whichever order they are done: every file has the same bytes."""
    records = sorted((fresh / STATE).rglob("*.json.gz.json"))
    for seed in range(4):
        target = tmp_path / str(seed)
        shutil.copytree(fresh, target)
        for record in random.Random(seed).sample(records, len(records) // 2):
            (target / record.relative_to(fresh)).unlink()
        counts = resumable(target, jobs)
        assert 0 < counts.recalled < counts.done == len(records)
        assert tree(target) == tree(fresh)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a batch of traces with many findings, with its history beside it."""
    target = tmp_path_factory.mktemp("fresh")
    resumable(target, 1)
    return target


def resumable(target: Path, jobs: int) -> Counts:
    """A batch of traces that have advice in common."""
    options = ReportOptions(formats=("json",))
    inputs = (str(ROOT / "fixtures" / "synthetic" / "*.gz"), str(ROOT / "fixtures" / "lab" / "ddp-*.small.*.gz"))
    request = Request(inputs, str(target), options, jobs, history=str(target / "history.csv"))
    return run(request, Progress()).counts
