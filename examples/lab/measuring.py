"""Records a fault and its fix, times both without the profiler, and compares that with what the advice predicts."""

from __future__ import annotations

import gc
from collections.abc import Generator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import torch

import traceanalyzer as ta
from examples.lab.faults import Fault
from examples.lab.training import CPU, GPU, Training
from traceanalyzer.capture import ThroughputMeter, profile
from traceanalyzer.report.model import Finding

NS_PER_MS = 1e6


@dataclass(frozen=True)
class Effort:
    """How much is recorded and timed."""

    warmup: int = 3
    steps: int = 8
    """To record, and to time in each round."""
    rounds: int = 5
    """The two trainings take turns, so that a busy machine disturbs both."""


@dataclass(frozen=True)
class Result:
    """One row of the table; times in ms per step. None: does not apply, or nothing was found."""

    fault: str
    skipped: str | None = None
    """Why it was not run."""
    found: tuple[str, ...] = ()
    """Rules that see the fault, of those that shall."""
    found_after_the_fix: tuple[str, ...] = ()
    predicted_ms: tuple[float, float] | None = None
    """At least, at most."""
    before_ms: float | None = None
    after_ms: float | None = None
    measured_ms: float | None = None
    error_ms: float | None = None
    """How far what was measured lies outside of what was predicted; below 0 where it saves less than that."""
    error_share: float | None = None
    """The same over the step with the fault."""


def device() -> torch.device:
    """Where the lab runs; on a CPU in one thread, which leaves the other cores to workers and to the machine."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    torch.set_num_threads(1)
    return torch.device("cpu")


def measure(fault: Fault, folder: Path, effort: Effort) -> Result:
    """Record and time a fault and its fix."""
    if fault.needs_gpu and device().type == "cpu":
        return Result(fault.name, skipped="needs a GPU")
    found = _findings(fault, fault.before, folder / fault.name / "before", effort)
    after = _findings(fault, fault.after, folder / fault.name / "after", effort)
    times = [(step_ms(fault.before, effort), step_ms(fault.after, effort)) for _ in range(effort.rounds)]
    before_ms, after_ms = (median(column) for column in zip(*times, strict=True))
    predicted, measured = _prediction(found), before_ms - after_ms
    error = None if predicted is None or fault.is_risk else _outside(measured, predicted)
    return Result(
        fault.name,
        found=_names(found),
        found_after_the_fix=_names(after),
        predicted_ms=predicted,
        before_ms=before_ms,
        after_ms=after_ms,
        measured_ms=measured,
        error_ms=error,
        error_share=None if error is None else error / before_ms,
    )


def record(fault: Fault, training: Training, folder: Path, effort: Effort) -> Path:
    """Record some steps; returns the trace. The steps after them are for the capture to compare with."""
    steps = _start(training)
    with profile(folder, steps=effort.steps, warmup=effort.warmup, **fault.recording) as recording:
        for _ in islice(steps, effort.warmup + 2 * effort.steps + 1):
            recording.step()
    _forget(steps)
    if recording.trace is None:
        raise RuntimeError(f"{fault.name}: no trace was written")
    return recording.trace


def step_ms(training: Training, effort: Effort) -> float:
    """Duration of a step without the profiler."""
    steps = _start(training)
    meter = ThroughputMeter(warmup=effort.warmup)
    for samples in islice(steps, effort.warmup + effort.steps):
        meter.step(samples)
    plain = meter.plain
    _forget(steps)
    return 1e3 * plain.seconds / plain.steps


def _start(training: Training) -> Generator[int, None, None]:
    where = device()
    return training.run(where, GPU if where.type == "cuda" else CPU)


def _forget(steps: Generator[int, None, None]) -> None:
    """End a training: its workers stop, and no later capture sees its modules."""
    steps.close()
    gc.collect()


def _findings(fault: Fault, training: Training, folder: Path, effort: Effort) -> list[Finding]:
    """What the rules of a fault say about a training."""
    found = ta.analyze(ta.load(record(fault, training, folder, effort))).findings
    return [finding for finding in found if finding.rule in fault.rules]


def _names(found: list[Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.rule for finding in found}))


def _prediction(found: list[Finding]) -> tuple[float, float] | None:
    """By the finding that promises most; several see the same time."""
    savings = [finding.saving.wall_ns_per_step for finding in found if finding.saving is not None]
    if not savings:
        return None
    low, high = max(savings, key=lambda wall: wall[1])
    return low / NS_PER_MS, high / NS_PER_MS


def _outside(measured: float, predicted: tuple[float, float]) -> float:
    """0 within the interval."""
    low, high = predicted
    return measured - min(max(measured, low), high)
