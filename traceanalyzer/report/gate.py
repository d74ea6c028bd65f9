"""The answer to `--fail-on-regression`: what it judged, by which noise, and the steps that are unlike the others."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.compared import Interval
from traceanalyzer.report.message import Message


class Noise(msgspec.Struct, frozen=True):
    """By how much recordings of unchanged programs differ on one machine."""

    name: str
    """Name of the folder with the recordings, without its path."""
    programs: int
    """Number of programs that were recorded more than once."""
    recordings: int
    """Number of their recordings."""
    typical_share: float
    """Standard deviation of the typical step between recordings of one program, as a share of the step (that of
    logarithms, pooled over the programs)."""
    mean_share: float
    """The same of the mean of all recorded steps."""
    freedom: int
    """Degrees of freedom of both: recordings minus programs."""


class GateTest(msgspec.Struct, frozen=True):
    """One of the two statistics that the gate judges."""

    statistic: str
    """What it is about: `typical` (the typical step) or `mean` (the mean of all recorded steps)."""
    outcome: str
    """Its result: `passed`, `regression` or `inconclusive`."""
    change_share: float
    """Change over the base; 0.1 is 10 % slower."""
    interval_share: Interval | None
    """Interval of that change at the level of the gate (99 %), with the noise between recordings where it is known, the
    drift within them, and what another clock may explain; null where nothing is known of the noise."""


class UnusualSteps(msgspec.Struct, frozen=True):
    """The steps that are unlike the typical ones for one reason, on both sides."""

    reason: str
    """Why they are, as in the analysis `recording`: `loading`, `allocation`, `loader`, `communication`, `other-phase`,
    `earlier-work`, `recording-end` or `unknown`."""
    base_count: int
    """Number of such steps in the base."""
    head_count: int
    """Number of such steps in the head."""
    base_ns: float | None
    """Their mean duration in ns in the base; null without any."""
    head_ns: float | None
    """Their mean duration in ns in the head; null without any."""
    is_judged: bool
    """Whether they are part of the mean of all recorded steps: not those that an edge of the recording cuts, start-up,
    or another phase of the program."""


class Gate(msgspec.Struct, frozen=True):
    """The answer to --fail-on-regression."""

    limit_share: float
    """Largest share by which steps may become slower."""
    outcome: str
    """Result of the gate: `passed`, `regression` or `inconclusive`."""
    reason: Message
    """Why the gate decides so."""
    tests: tuple[GateTest, ...] = ()
    """The typical step and the mean of all recorded steps; empty without single steps, and in differences of old
    versions."""
    noise_from: str | None = None
    """Where the noise is from: `steps` (one recording a side), `recordings` (several a side), `machine` (recordings of
    `--noise`), `both`; null where it is unknown."""
