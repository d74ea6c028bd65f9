"""How exactly a saving can be known at all: steps that do the same differ.

What a change takes away is uncertain by its own interval. How much of it a measurement of the changed program would
show also depends on the steps that were recorded and on those that are measured then, of which no two are equal. The
two uncertainties have nothing to do with each other, so they are combined as the root of the sum of their squares
(Guide to the expression of uncertainty in measurement, JCGM 100:2008, 5.1.2), on either side of the point estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, sqrt
from statistics import fmean, stdev

import numpy as np

from traceanalyzer.trace.table import I64

Interval = tuple[float, float]
"""Least and greatest value in ns."""

USUAL = 0.02
"""How much steps that do the same differ, over their median (measured: 1.7 % in the middle one of seven programs whose
recordings on GPUs have three to six typical steps, from 0.1 to 4 %)."""

COVERS = 1.28
"""Standard errors on either side of a value between which four of five measurements lie, of a normal distribution."""

FEWEST = 3
"""With fewer steps nothing tells how much they differ."""
_OF_NORMAL = 1.4826
"""Standard deviation over the median distance from the median, of a normal distribution."""


def of_savings(before_ns: I64, after_ns: I64) -> float:
    """How much the saving of a typical step varies in ns, where a change is compared with the same steps without it.

    As a standard error; 0 with fewer than three steps.

    Args:
        before_ns: Durations of the recorded steps. Shape (steps,).
        after_ns: Durations of the same steps with a change. Shape (steps,).
    """
    return _standard_error(before_ns - after_ns)


def of_other_steps(before_ns: I64, after_ns: I64) -> float:
    """How much a saving varies in ns where a change is compared with other steps, which vary by themselves."""
    return hypot(_standard_error(before_ns), _standard_error(after_ns))


def of_work(steps_ns: I64) -> float:
    """How much more work of one kind other steps may have than the recorded ones, as a share: as much as steps differ.

    0 with fewer than three steps.
    """
    usual = float(np.median(steps_ns))
    return COVERS * _standard_error(steps_ns) / usual if usual else 0.0


def _standard_error(steps_ns: I64) -> float:
    """Of a typical step."""
    return deviation(steps_ns) / sqrt(len(steps_ns)) if len(steps_ns) >= FEWEST else 0.0


def deviation(steps_ns: I64) -> float:
    """How much steps differ, as a standard deviation that does not mind single steps that were disturbed."""
    return _OF_NORMAL * float(np.median(np.abs(steps_ns - np.median(steps_ns))))


def around(interval: Interval, point: float, varies_ns: float, most: float) -> Interval:
    """An interval of what is saved, with the variation of steps: never narrower than before.

    Args:
        interval: Least and greatest saving in ns.
        point: The most likely one.
        varies_ns: How much it varies from step to step, in ns. Nothing varies by more than there is.
        most: What can go away at most, in ns: no variation makes a saving greater than what it is a part of.
    """
    low, high = combined(interval, point, min(COVERS * varies_ns, point), USUAL * point)
    return below((max(0.0, min(interval[0], low)), max(interval[1], min(high, most))))


def combined(interval: Interval, point: float, *others: float) -> Interval:
    """An interval around a value together with other uncertainties of the same unit that have nothing to do with it."""
    return point - hypot(point - interval[0], *others), point + hypot(interval[1] - point, *others)


def below(interval: Interval) -> Interval:
    """An interval whose upper end is a bound, with the variation of steps that do the same: at the lower end."""
    low, high = interval
    return min(low, high * (1 - USUAL) / (1 + USUAL)), high


def of_mean(values: Sequence[float]) -> float:
    """Standard error of the mean of some values over it: 0 for a single one, and at most 1."""
    mean = fmean(values)
    return min(1.0, stdev(values) / mean / sqrt(len(values))) if len(values) > 1 and mean > 0 else 0.0
