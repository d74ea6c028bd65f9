"""What a comparison shows of each side besides the figures that it compares: its headline, and one step as a picture.

It is part of a difference, so that a saved one can be drawn without the traces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import fsum

import msgspec

from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Resources

Interval = tuple[float, float]
"""Lower and upper end of an interval."""

_SLACK = 0.1
"""Share of the prediction by which the measurement may differ where no noise is known (own choice)."""


class StripBand(msgspec.Struct, frozen=True):
    """All time of one kind in a lane."""

    tone: str
    """Kind of the work: `kernel`, `memcpy`, `communication`, `cpu_exec`, `runtime` or `dataloader`."""
    spans: tuple[tuple[int, int], ...]
    """Start and duration of each piece in ns, since the start of the step; neighbours too close to be drawn apart are
    one piece."""


class StripLane(msgspec.Struct, frozen=True):
    """A thread, or a device."""

    kind: str
    """What the lane shows: `host` (a thread), or `device` (all streams of one)."""
    label: str
    """Process and thread, such as `12/34`, or the number of the device."""
    bands: tuple[StripBand, ...]
    """What happens in it, in the order in which it is drawn."""


class StepStrip(msgspec.Struct, frozen=True):
    """One step as lanes: of the typical steps, the one whose duration is nearest to theirs."""

    step: str
    """Number of the step, or the framework's mark."""
    duration_ns: int
    """Duration of the step in ns."""
    lanes: tuple[StripLane, ...]
    """The threads with most to show, then the devices."""
    rank: int | None = None
    """Rank of the process, where the side has several traces; else null."""


class ComparedSide(msgspec.Struct, frozen=True):
    """One side of a comparison as people want to see it; null is unknown."""

    headline: Message | None = None
    """What bounds its step, in one sentence, as in its report; of several traces that of the first."""
    bound: str | None = None
    """What bounds its step, as in its report."""
    host_ns: float | None = None
    """Time per step in ns in which the host works; of a printed table the self CPU time of all threads, waiting
    included."""
    device_ns: float | None = None
    """Time per step in ns in which the busiest device works; of a printed table its self device time."""
    samples_per_s: float | None = None
    """Samples per second: as the text prints them, or of a trace by the size of its batches."""
    strip: StepStrip | None = None
    """One step of the first trace; null for printed tables."""


def together(
    savings: Iterable[tuple[str | None, Interval]], resources: Resources | None, step_ns: float
) -> Interval | None:
    """What fixes were predicted to save together, in ns: they overlap, so at least the largest, at most their sum.

    Args:
        savings: Resource and predicted saving of each fix.
        resources: Of the step before them; savings of a resource add up to no more than its time.
        step_ns: Duration of that step, which is the most that anything saves.

    Returns:
        None if nothing was predicted.
    """
    known = list(savings)
    if not known or max(high for _, (_, high) in known) <= 0:
        return None
    sums: defaultdict[str | None, float] = defaultdict(float)
    for resource, (_, high) in known:
        sums[resource] += high
    limits = {name: getattr(resources, f"{name}_ns", None) for name in sums}
    most = fsum(value if (limit := limits[name]) is None else min(value, limit) for name, value in sums.items())
    return max(low for _, (low, _) in known), min(step_ns, most)


def agreement(predicted: Interval, measured: float, interval: Interval | None) -> str:
    """Whether a measured gain agrees with the predicted one.

    Only the measured value itself can be as predicted; an interval that reaches the prediction shows nothing.

    Args:
        predicted: At least and at most, in ns.
        measured: In ns.
        interval: Confidence interval of the measured gain; None if no noise is known.
    """
    low, high = predicted
    reached = interval or (measured - _SLACK * high, measured + _SLACK * high)
    if low <= measured <= high:
        return "as-predicted"
    if reached[1] < low:
        return "less"
    return "more" if reached[0] > high else "cannot-tell"
