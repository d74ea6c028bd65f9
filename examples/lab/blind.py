"""Programs with faults planted by people who had not read the code: what one capture said, and what was true."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec

_FILE = Path(__file__).parent / "blind.json"


class Program(msgspec.Struct, frozen=True):
    """One program, captured once, and timed with and without its fault."""

    program: str
    """What it trains."""
    fault: str
    """What is wrong, by its author."""
    measured_share: tuple[float, float, float]
    """Saving over the step with the fault, without the profiler: median, least and greatest of the turns."""
    rule: str | None
    """The rule that names the fault; null if none does."""
    predicted_share: tuple[float, float] | None = None
    """Its saving over the step, at least and at most; null if it tells none."""
    said: str = ""
    """What the report said first instead, or what is to be known of it."""

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured share lies in the interval, both in whole percent; None without one."""
        if self.predicted_share is None or self.rule is None:
            return None
        low, high = (round(100 * end) for end in self.predicted_share)
        return low <= round(100 * self.measured_share[0]) <= high


class Blind(msgspec.Struct, frozen=True):
    """One run of such programs."""

    measured: str
    """When, and on which machine."""
    programs: tuple[Program, ...]


def read() -> Blind | None:
    """The run that is kept; None without one."""
    return msgspec.json.decode(_FILE.read_bytes(), type=Blind) if _FILE.exists() else None


def rows(run: Blind) -> list[tuple[str, ...]]:
    """The table of a run, with its head."""
    table = [("program", "fault", "named by", "predicted", "measured (range)", "inside", "said")]
    for each in run.programs:
        middle, low, high = each.measured_share
        predicted = "-" if each.predicted_share is None else "{:.0%} to {:.0%}".format(*each.predicted_share)
        inside = {True: "yes", False: "no", None: "-"}[each.is_inside]
        rule = "-" if each.rule is None else f"`{each.rule}`"
        measured = f"{middle:.0%} ({low:.0%} to {high:.0%})"
        table.append((each.program, each.fault, rule, predicted, measured, inside, each.said))
    return table


def summary(run: Blind) -> str:
    """Counts in sentences."""
    named = [each for each in run.programs if each.rule is not None]
    told = [each for each in named if each.is_inside is not None]
    inside = sum(bool(each.is_inside) for each in told)
    widths = [100 * (each.predicted_share[1] - each.predicted_share[0]) for each in told if each.predicted_share]
    width = f" These intervals are {median(widths):.0f} percentage points wide in the median." if widths else ""
    return (
        f"{run.measured} Of {len(run.programs)} faults {len(named)} are named. For {len(told)} of these a saving is "
        f"told, and {inside} of the measured medians lie inside.{width}"
    )
