"""What is compared: the figures of one side, whatever they were read from, per step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from traceanalyzer.report.difference import Cost, Side
from traceanalyzer.report.model import Finding, RecordingOptions, Resources


@dataclass(frozen=True)
class Key:
    """By what rows of the two sides are matched."""

    name: str
    detail: str | None = None
    """Input shapes."""
    owner: str | None = None
    """The operator that launches a kernel."""


Table = Mapping[Key, Cost]


@dataclass(frozen=True)
class Ranked:
    """All operators, kernels or modules of a side."""

    rows: Table
    ambiguous: int = 0
    """Rows that no name identifies, and that are left out."""
    hidden_ns: float = 0.0
    """Per step, what rows that are not printed may take; 0: everything is there."""


@dataclass(frozen=True)
class StepRow:
    """One step: how long it took and its parts, in ns."""

    duration_ns: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class MeasuredGpu:
    """How busy a device is; None is unknown."""

    utilization: float | None
    busy_share: float | None
    est_sm_efficiency: float | None
    tensor_core_share: float | None


@dataclass(frozen=True)
class MeasuredMemory:
    """Peaks of one device; None is unknown."""

    allocated_bytes: int | None
    reserved_bytes: int | None


@dataclass(frozen=True)
class Measurement:
    """One side."""

    side: Side
    runs: tuple[tuple[StepRow, ...], ...]
    """Per capture its steps in the order of time; of several ranks, the means over the ranks. Empty for tables."""
    total_ns: float | None
    """Time of a step, where no single steps are known (a printed table): an estimate."""
    parts: Mapping[str, float | None]
    """Of `total_ns`, overlapping."""
    rankings: Mapping[str, Ranked]
    memory: Mapping[str, MeasuredMemory]
    gpus: Mapping[int, MeasuredGpu]
    resources: Resources | None
    findings: tuple[Finding, ...]
    options: RecordingOptions | None
    world_size: int | None

    @property
    def steps(self) -> tuple[StepRow, ...]:
        """All steps of all captures."""
        return tuple(step for run in self.runs for step in run)

    @property
    def step_ns(self) -> float | None:
        """The mean time of a step."""
        steps = self.steps
        return mean(step.duration_ns for step in steps) if steps else self.total_ns


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean of at least one value."""
    known = list(values)
    return sum(known) / len(known)


def known_mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None
