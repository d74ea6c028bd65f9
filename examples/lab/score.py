"""Compares predictions of the tool with the measurements of a run, without running the programs again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from examples.lab import keeping
from examples.lab.catalogue import BY_NAME, Fault
from examples.lab.results import Recorded, Row, Run, Said
from examples.lab.task import SIDES

SERIOUS = frozenset({"critical", "high", "medium"})
NOISE = 0.02
"""Share of the step below which a saving counts as 0, because two equal programs differ by as much."""


@dataclass(frozen=True)
class Score:
    """Prediction and measurement of one row. Times are in ms per step, shares are of the step with the fault."""

    fault: Fault
    row: Row
    before: Recorded
    """Findings of this version, if the trace was kept; else those saved with the run."""
    after: Recorded
    is_fresh: bool
    """Whether both traces were kept, so that this version of the tool has analyzed them."""

    @property
    def fired(self) -> tuple[str, ...]:
        """Expected rules that fired on the program with the fault."""
        return tuple(dict.fromkeys(said.rule for said in self.before.said if said.rule in self.fault.rules))

    @property
    def others(self) -> tuple[str, ...]:
        """Other findings of medium severity or more."""
        serious = [said.rule for said in self.before.said if said.severity in SERIOUS]
        return tuple(dict.fromkeys(rule for rule in serious if rule not in self.fault.rules))

    @property
    def false_alarms(self) -> tuple[str, ...]:
        """Expected rules that still fire after the fix."""
        return tuple(dict.fromkeys(said.rule for said in self.after.said if said.rule in self.fault.rules))

    @property
    def still_said(self) -> tuple[str, ...]:
        """Other findings of medium severity or more after the fix; they may be true."""
        serious = [said.rule for said in self.after.said if said.severity in SERIOUS]
        return tuple(dict.fromkeys(rule for rule in serious if rule not in self.fault.rules))

    @property
    def predicted(self) -> tuple[float, float] | None:
        """The largest predicted saving of an expected rule, at least and at most; None if there is none."""
        return None if self._chosen is None else self._chosen.saving_ms

    @property
    def _chosen(self) -> Said | None:
        known = [said for said in self.before.said if said.rule in self.fault.rules and said.saving_ms is not None]
        return max(known, key=lambda said: (said.saving_ms or (0.0, 0.0))[1], default=None)

    @property
    def predicted_shares(self) -> tuple[float, float] | None:
        """The predicted saving as shares of its step."""
        if self._chosen is None or self._chosen.saving_ms is None:
            return None
        low, high = self._chosen.saving_ms
        return self._chosen.saving_share or (low / self.before.step_ms, high / self.before.step_ms)

    @property
    def measured(self) -> tuple[float, float, float]:
        """Least, median and largest saving of the turns."""
        return _spread(self.row.savings_ms())

    @property
    def measured_shares(self) -> tuple[float, float, float]:
        """The measured savings as shares of the step."""
        return _spread(self.row.shares())

    @property
    def undisturbed_shares(self) -> tuple[float, float, float]:
        """The measured shares without the time in which other programs used the core of the main thread."""
        return _spread(self.row.shares(undisturbed=True))

    @property
    def inside(self) -> bool | None:
        """Whether the median of the measured savings lies in the predicted interval; None without a prediction."""
        return _inside(self.measured[1], self.predicted)

    @property
    def inside_share(self) -> bool | None:
        """As `inside`, but in shares of the step, which a busy machine disturbs less."""
        return _inside(self.undisturbed_shares[1], self.predicted_shares)

    @property
    def touches(self) -> bool | None:
        """Whether a turn lies in the predicted interval, or turns lie on both sides of it."""
        if self.predicted is None:
            return None
        low, high = self.predicted
        return self.measured[0] <= high and self.measured[2] >= low

    @property
    def width(self) -> float | None:
        """Width of the predicted interval divided by its middle; 2 if it begins at 0."""
        if self.predicted is None or not sum(self.predicted):
            return None
        low, high = self.predicted
        return 2 * (high - low) / (high + low)

    @property
    def costs_nothing(self) -> bool:
        """Whether the cost of the fault cannot be distinguished from noise."""
        low, middle, _ = self.undisturbed_shares
        return middle < NOISE or low < 0


def score(run: Run, folder: Path | None) -> list[Score]:
    """Score all rows of a run.

    Args:
        run: Measurements, and findings at the time of the run.
        folder: Folder of the kept traces of the same run; None if no traces were kept.
    """
    return [_score(row, folder) for row in run.rows if row.fault in BY_NAME]


def _score(row: Row, folder: Path | None) -> Score:
    fault = BY_NAME[row.fault]
    sides = [_kept(fault, row.size, side, folder) for side in SIDES] if folder else []
    if not sides or not all(path.exists() for paths in sides for path in paths):
        return Score(fault, row, row.before.recorded, row.after.recorded, is_fresh=False)
    before, after = map(_judged, sides)
    return Score(fault, row, before, after, is_fresh=True)


def _kept(fault: Fault, size: str, side: str, folder: Path) -> tuple[Path, ...]:
    """Paths of the traces of all ranks, if they were kept."""
    return tuple(keeping.kept(fault.name, size, side, folder, rank) for rank in range(fault.ranks))


@cache
def _judged(paths: tuple[Path, ...]) -> Recorded:
    from examples.lab.reading import recorded  # noqa: PLC0415 - loads the whole tool

    return recorded(paths)


def _spread(values: list[float]) -> tuple[float, float, float]:
    return min(values), median(values), max(values)


def _inside(value: float, interval: tuple[float, float] | None) -> bool | None:
    return None if interval is None else interval[0] <= value <= interval[1]
