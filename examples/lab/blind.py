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
    measured_share: tuple[float, float, float] | None
    """Saving over the step with the fault, without the profiler: median, least and greatest of the turns; null if it
    was not measured."""
    rule: str | None
    """The rule that names the fault; null if none does."""
    predicted_share: tuple[float, float] | None = None
    """Its saving over the step, at least and at most; null if it tells none."""
    is_half: bool = False
    """Whether the rule only says where the time goes, not what it is for."""
    said: str = ""
    """What the report said first instead, or what is to be known of it."""

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured share lies in the interval, both in whole percent; None without one."""
        if self.predicted_share is None or self.rule is None or self.measured_share is None:
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
        measured = "unknown"
        if each.measured_share is not None:
            measured = "{:.0%} ({:.0%} to {:.0%})".format(*each.measured_share)
        predicted = "-" if each.predicted_share is None else "{:.0%} to {:.0%}".format(*each.predicted_share)
        inside = {True: "yes", False: "no", None: "-"}[each.is_inside]
        rule = "-" if each.rule is None else f"`{each.rule}`" + (" (half)" if each.is_half else "")
        table.append((each.program, each.fault, rule, predicted, measured, inside, each.said))
    return table


def summary(run: Blind) -> str:
    """Counts in sentences."""
    named = [each for each in run.programs if each.rule is not None]
    half = sum(each.is_half for each in named)
    told = [each for each in named if each.is_inside is not None]
    inside = sum(bool(each.is_inside) for each in told)
    widths = [100 * (each.predicted_share[1] - each.predicted_share[0]) for each in told if each.predicted_share]
    width = f" These intervals are {median(widths):.0f} percentage points wide in the median." if widths else ""
    return (
        f"{run.measured} Of {len(run.programs)} faults {len(named) - half} are named, and of {half} more it is only "
        f"said that code outside of PyTorch takes the time. Of {len(told)} of these a saving is told and was measured: "
        f"{inside} of the medians lie inside.{width}"
    )
