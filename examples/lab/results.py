"""The results of a run of the lab, as data. Times are in ms per step."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec

FOLDER = Path(__file__).parent / "results"
"""Folder of the runs that docs/lab.md shows."""


class Said(msgspec.Struct, frozen=True):
    """One finding of the report on a trace."""

    rule: str
    severity: str
    saving_ms: tuple[float, float] | None = None
    """By how much a step gets shorter, at least and at most; null if no saving is predicted."""
    saving_share: tuple[float, float] | None = None
    """The saving as shares of its step; null in runs that did not save shares."""


class Recorded(msgspec.Struct, frozen=True):
    """The findings of the tool on a trace, at the time of the run."""

    step_ms: float
    """Typical step of the trace, and so with the profiler."""
    said: tuple[Said, ...]


class Turn(msgspec.Struct, frozen=True):
    """Some steps in a row, timed without the profiler."""

    step_ms: float
    waited_ms: float | None
    """Part of `step_ms` in which the main thread was ready to run but other programs used the core; null if the system
    does not count it."""
    samples: float
    """Samples in one step."""


class Side(msgspec.Struct, frozen=True):
    """A program, with or without the fault."""

    turns: tuple[Turn, ...]
    recorded: Recorded

    @property
    def step_ms(self) -> float:
        """The median of the turns."""
        return median(turn.step_ms for turn in self.turns)


class Row(msgspec.Struct, frozen=True):
    """One fault at one size."""

    fault: str
    size: str
    before: Side
    after: Side

    def savings_ms(self, *, undisturbed: bool = False) -> list[float]:
        """What the fix saves of a step with the fault, for an equal number of samples, turn by turn.

        Args:
            undisturbed: Subtract the time in which the main thread waited for a core.
        """
        return [
            before - after * old.samples / new.samples
            for old, new in zip(self.before.turns, self.after.turns, strict=True)
            for before, after in [(_time(old, undisturbed), _time(new, undisturbed))]
        ]

    def shares(self, *, undisturbed: bool = False) -> list[float]:
        """The savings as shares of the step with the fault."""
        savings = self.savings_ms(undisturbed=undisturbed)
        turns = zip(savings, self.before.turns, strict=True)
        return [saving / _time(turn, undisturbed) for saving, turn in turns]


class Machine(msgspec.Struct, frozen=True):
    """The machine of a run, without its name."""

    cpu: str
    cores: int
    memory_gb: float
    gpu: str | None
    system: str
    load: tuple[float, float]
    """Load average at the beginning and at the end of the run."""


class Run(msgspec.Struct, frozen=True):
    """All rows of one run."""

    started: str
    """Time in UTC, in the format of ISO 8601."""
    ended: str
    machine: Machine
    versions: dict[str, str]
    rows: tuple[Row, ...]
    failed: dict[str, str] = {}
    """Faults that could not be run, each with the reason."""
    note: str = ""
    """Further information about the run."""


def read(path: Path) -> Run:
    """Read a run from its file."""
    return msgspec.json.decode(path.read_bytes(), type=Run)


def write(run: Run, path: Path) -> None:
    """Write a run to a file, with four digits, which is more than can be measured."""
    plain = _rounded(msgspec.to_builtins(run))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n")


def _time(turn: Turn, undisturbed: bool) -> float:
    return max(turn.step_ms - (turn.waited_ms or 0.0), 1e-6) if undisturbed else turn.step_ms


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
