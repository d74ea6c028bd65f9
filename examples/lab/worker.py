"""The process of one fault: records its two programs, then times them in turns without the profiler.

    python -m examples.lab.worker TASK.json

With two ranks it is started twice; rank 0 writes the times. The two programs of a fault share a process, so that they
run under the same conditions; other faults have other processes, because a program may leave state in torch.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import torch
from torch import distributed

from examples.lab.catalogue import BY_NAME, Fault
from examples.lab.parts import SIZES, Program, Setup
from examples.lab.results import Turn
from examples.lab.task import SIDES, Task
from traceanalyzer.capture import ThroughputMeter, profile


def main(task: Task) -> None:
    """Record and time the programs, and write the results."""
    fault = BY_NAME[task.fault]
    cuda = torch.cuda.is_available()
    if not cuda:
        torch.set_num_threads(1)  # leave the other cores to workers, ranks and other programs
    if fault.ranks > 1:
        store = f"file://{task.store}"
        distributed.init_process_group("gloo", init_method=store, rank=task.rank, world_size=fault.ranks)
    device = torch.device("cuda" if cuda else "cpu")
    for size, steps in zip(task.sizes, task.steps, strict=True):
        setup = Setup(device, SIZES[device.type][size], task.rank)
        measure(fault, setup, task, Path(task.folder) / size, steps)
    if fault.ranks > 1:
        distributed.destroy_process_group()


def measure(fault: Fault, setup: Setup, task: Task, folder: Path, steps: int) -> None:
    """Record both programs, then time them in turns; which program comes first alternates, too."""
    for side in SIDES:
        record(fault, setup, task, side, folder / side)
    turns: dict[str, list[Turn]] = {side: [] for side in SIDES}
    for number in range(task.rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            turns[side].append(timed(program(fault, setup, side), task.warmup, steps))
    (folder / "turns.json").write_bytes(msgspec.json.encode(turns))


def program(fault: Fault, setup: Setup, side: str) -> Program:
    """Start one of the two programs of a fault."""
    torch.manual_seed(0)
    return getattr(importlib.import_module(fault.module), side)(setup)


def record(fault: Fault, setup: Setup, task: Task, side: str, folder: Path) -> None:
    """Record some steps; the capture compares them with the steps after them."""
    steps = program(fault, setup, side)
    with profile(folder, steps=task.record, warmup=task.warmup, **fault.recording) as recording:
        for _ in range(task.warmup + 2 * task.record + 1):
            next(steps)
            recording.step()
    _end(steps)
    if recording.trace is None:
        raise RuntimeError(f"{fault.name}: no trace was written")


def timed(running: Program, warmup: int, steps: int) -> Turn:
    """Time some steps without the profiler, after a warm-up."""
    for _ in range(warmup):
        next(running)
    meter, waited = ThroughputMeter(), _waited_ns()
    for _ in range(steps):
        meter.step(next(running))
    plain, waited_after = meter.plain, _waited_ns()
    _end(running)
    lost = None if waited is None or waited_after is None else (waited_after - waited) / 1e6 / plain.steps
    return Turn(1e3 * plain.seconds / plain.steps, lost, plain.samples / plain.steps)


def _waited_ns() -> int | None:
    """Time in ns in which this thread was ready to run but had no core, as Linux counts it; None elsewhere."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1])
    return None


def _end(steps: Program) -> None:
    """End a program, so that its workers stop and no later capture finds its modules."""
    steps.close()
    gc.collect()
    if distributed.is_initialized():
        distributed.barrier()


if __name__ == "__main__":
    main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Task))
    sys.stdout.flush()
    os._exit(0)  # do not wait for threads of gloo and of loaders
