"""The figures of one side per step, from traces, reports or tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from traceanalyzer.report.comparability import Side
from traceanalyzer.report.difference import Cost
from traceanalyzer.report.model import Finding, Resources
from traceanalyzer.report.source import RecordingOptions


@dataclass(frozen=True)
class Key:
    """What identifies a row, so that rows of two sides can be matched."""

    name: str
    detail: str | None = None
    """Input shapes; None where rows are not distinguished by them."""
    owner: str | None = None
    """The operator that launches a kernel."""


Table = Mapping[Key, Cost]


@dataclass(frozen=True)
class Ranked:
    """Costs of all operators, kernels or modules of a side."""

    rows: Table
    ambiguous: int = 0
    """Number of rows that no name identifies, and that are left out."""
    hidden_ns: float = 0.0
    """Most time per step in ns that rows which are not printed may take; 0 if everything is there."""


@dataclass(frozen=True)
class StepRow:
    """Duration and parts of one step, in ns."""

    duration_ns: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class MeasuredGpu:
    """How busy one device is; None is unknown."""

    utilization: float | None
    busy_share: float | None
    est_sm_efficiency: float | None
    tensor_core_share: float | None


@dataclass(frozen=True)
class MeasuredMemory:
    """Peak memory of one device; None is unknown."""

    allocated_bytes: int | None
    reserved_bytes: int | None


@dataclass(frozen=True)
class Measurement:
    """The figures of one side of a comparison."""

    side: Side
    runs: tuple[tuple[StepRow, ...], ...]
    """Steps of each capture in the order of time; of several ranks the means over the ranks. Empty for tables."""
    total_ns: float | None
    """Estimated time of a step in ns, where no single steps are known (a printed table); else None."""
    parts: Mapping[str, float | None]
    """Parts of `total_ns` in ns, which overlap."""
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
        """Mean time of a step in ns; None without steps."""
        steps = self.steps
        return mean(step.duration_ns for step in steps) if steps else self.total_ns


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean of at least one value."""
    known = list(values)
    return sum(known) / len(known)


def known_mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None if no value is known."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None
