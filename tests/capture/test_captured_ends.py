"""How captured programs end: what signals, exceptions and kills leave."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.capture.capturing import (
    CAPTURE,
    PATIENCE_S,
    PROGRAMS,
    capture,
    facts,
    needs_torch,
    only,
    plainly,
    text,
    traces,
)
from tests.cli.running import environment

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _torch() -> None:
    needs_torch()


def test_an_exception_leaves_what_was_recorded(tmp_path: Path) -> None:
    run = capture(tmp_path, "training.py", "30", "--raise-at", "5", options=("-q",))
    before = plainly("training.py", "30", "--raise-at", "5")
    assert (run.code, run.out) == (before.code, before.out)
    assert before.err in run.err
    assert "3 of 5 recorded steps" in run.err
    found = facts(only(tmp_path))
    assert (found.steps, found.ended) == (3, "exception")


def started(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """A capture of a training that never ends, in its own session."""
    command = [*CAPTURE, "-o", str(folder), *options, "--", sys.executable, str(PROGRAMS / "training.py"), "9"]
    return subprocess.Popen(
        [*command, "--forever"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )


def wait_for_lines(process: subprocess.Popen[bytes], count: int) -> None:
    """Until the program has printed that many."""
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_leaves_what_was_recorded(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, "--steps", "100000")
    wait_for_lines(process, 40)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, err
    assert (b"KeyboardInterrupt" in err) == (number == signal.SIGINT)
    found = facts(only(tmp_path))
    assert found.steps >= 30
    assert found.ended in {"signal", "exception"}


def test_a_signal_before_the_first_recorded_step_leaves_the_start(tmp_path: Path) -> None:
    process = started(tmp_path, "--warmup", "100000")
    wait_for_lines(process, 3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "aten::" in text(only(tmp_path))


def test_killed_at_random_moments_it_leaves_nothing_or_a_whole_trace(tmp_path: Path) -> None:
    chance = random.Random(time.time_ns())
    left = []
    for attempt in range(50 if os.environ.get("TRACEANALYZER_FULL") == "1" else 5):
        folder = tmp_path / str(attempt)
        process = started(folder, "--steps", "3", "--warmup", "1")
        wait_for_lines(process, chance.randrange(8))
        time.sleep(chance.random() * 0.4)  # not to wait for something: the moment shall be any
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        left += traces(folder)
        for trace in traces(folder):
            assert facts(trace).steps == 3
    assert all(trace.stat().st_size for trace in left)
