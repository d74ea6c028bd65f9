"""Runs each fault in a separate process, and analyzes its traces."""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

import traceanalyzer as ta
from examples.lab import keeping, machine
from examples.lab.catalogue import Fault
from examples.lab.reading import recorded
from examples.lab.results import Row, Run, Side, Turn
from examples.lab.task import SIDES, Task
from traceanalyzer.errors import TraceAnalyzerError

_PATIENCE_S = 600


@dataclass(frozen=True)
class Effort:
    """How many steps are recorded and timed."""

    warmup: int = 3
    record: int = 6
    steps: int | None = None
    """Steps of a turn; None: a number that suits the size."""
    rounds: int = 5

    def turn(self, fault: Fault, size: str) -> int:
        """Steps of a turn: a multiple of four, which are the steps of the shortest epoch."""
        return self.steps or (8 if fault.is_slow else 80 if size == "small" else 32)


def measure(faults: Iterable[Fault], sizes: Iterable[str], effort: Effort, traces: Path) -> Run:
    """Record and time faults at some sizes.

    Args:
        faults: The faults; those that need a GPU are left out if there is none.
        sizes: Names of sizes, of `parts.SIZES`.
        effort: How many steps are recorded and timed.
        traces: A folder for the traces: `NAME/SIZE/before/` and `after/`.
    """
    started, load, rows, failed = machine.now(), machine.load(), [], {}
    gpu = _gpu()
    for fault in faults:
        if fault.needs_gpu and gpu is None:
            continue
        sys.stderr.write(f"{machine.now()} {fault.name}\n")
        try:
            rows += _rows(fault, tuple(sizes), effort, traces / fault.name)
        except (subprocess.SubprocessError, RuntimeError, TraceAnalyzerError) as error:
            failed[fault.name] = str(error).strip().splitlines()[-1]
    versions = {"python": platform.python_version(), "torch": version("torch"), "traceanalyzer": ta.__version__}
    return Run(started, machine.now(), machine.facts(load, gpu), versions, tuple(rows), failed)


def _rows(fault: Fault, sizes: tuple[str, ...], effort: Effort, folder: Path) -> list[Row]:
    """Start the processes of a fault, one for each rank, and collect their results."""
    with tempfile.TemporaryDirectory() as scratch:
        processes = []
        for rank in range(fault.ranks):
            place = keeping.of_rank(folder, rank)
            store = str(Path(scratch) / "store")
            steps = tuple(effort.turn(fault, size) for size in sizes)
            task = Task(fault.name, sizes, str(place), effort.warmup, effort.record, steps, effort.rounds, rank, store)
            file = Path(scratch) / f"task{rank}.json"
            file.write_bytes(msgspec.json.encode(task))
            command = [sys.executable, "-m", "examples.lab.worker", str(file)]
            processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))  # noqa: S603 - ourselves
        _wait(processes)
    return [_row(fault, size, folder) for size in sizes]


def _row(fault: Fault, size: str, folder: Path) -> Row:
    turns = msgspec.json.decode((folder / size / "turns.json").read_bytes(), type=dict[str, tuple[Turn, ...]])
    places = [keeping.of_rank(folder, rank) / size for rank in range(fault.ranks)]
    before, after = (Side(turns[side], recorded([keeping.newest(place / side) for place in places])) for side in SIDES)
    return Row(fault.name, size, before, after)


def _wait(processes: list[subprocess.Popen[str]]) -> None:
    try:
        for process in processes:
            _, errors = process.communicate(timeout=_PATIENCE_S)
            if process.returncode:
                raise RuntimeError(errors or f"ended with {process.returncode}")
    finally:
        for process in processes:
            process.kill()


def _gpu() -> str | None:
    import torch  # noqa: PLC0415 - only a measurement needs it

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
