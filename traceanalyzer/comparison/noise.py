"""By how much recordings of an unchanged program differ, and tests of a change that count it.

The run is the unit of noise: two recordings of one program differ by more than their steps do, and a test of single
steps does not see that. With five recordings a side their means are the values. With fewer, the deviation between
recordings is pooled over both sides and over recordings of unchanged programs on that machine (`--noise`), and a change
is held against it by t. What remains is one recording a side: there only its steps are known.
"""

from __future__ import annotations

import math
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.measurement import Measurement, mean
from traceanalyzer.comparison.statistics import Tested
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.report.gate import Noise
from traceanalyzer.trace.table import F64

ENOUGH = 5
"""Recordings a side from which on they alone are compared: with four, no division into two sides is rarer than 1 in
35."""
BLOCKS = 3
"""Blocks of neighbouring steps of one recording. Own choice, by simulation: with three, a slow drift within the
recordings is never taken for a change of the program; with five it is in one of ten pairs."""
_OF_MEDIANS = 1.16
"""Factor by which the median of three or four values scatters more than their mean (that of a normal law)."""
_HEAVY = 4
"""Most degrees of freedom of a few recordings: some are further apart than a normal law says (own choice, by recordings
on a busy machine)."""
_OTHER = 0.05
"""Probability from which on recordings differ more than those of `--noise`, by an F test (own choice)."""

Runs = Sequence[Sequence[float]]
"""Step times in ns of each recording of a side."""


class Spread(NamedTuple):
    """Standard deviation of a statistic between recordings, of its logarithm."""

    deviation: float
    freedom: int


class Statistic(NamedTuple):
    """What is tested of both sides."""

    base: Runs
    head: Runs
    is_mean: bool
    """Whether it is the mean of the steps; else the typical step."""
    machine: Spread | None
    """Between recordings of unchanged programs; None if unknown."""
    inflation: float
    """Factor on standard errors of steps because neighbours are alike."""


def values(runs: Runs) -> F64:
    """The mean step of each recording."""
    return np.array([mean(run) for run in runs])


def steps(runs: Runs) -> F64:
    """The steps of all recordings."""
    return np.array([step for run in runs for step in run])


def are_units(base: Runs, head: Runs) -> bool:
    """Whether recordings are compared, not their steps."""
    return min(len(base), len(head)) > 1


def source(statistic: Statistic) -> str:
    """Where the noise is from, as in the gate: `steps`, `recordings`, `machine` or `both`."""
    one, two = statistic.base, statistic.head
    has_own = len(one) + len(two) > 2
    if min(len(one), len(two)) >= ENOUGH or statistic.machine is None:
        return "recordings" if has_own else "steps"
    return "both" if has_own else "machine"


def change(statistic: Statistic, level: float, *, by_blocks: bool = False) -> Tested | None:
    """Test a change; its interval in ns holds it with 1 - level.

    Args:
        statistic: Of both sides, which have steps.
        level: Probability that the interval misses.
        by_blocks: Whether a drift within single recordings counts as noise.

    Returns:
        None where nothing is known of the noise.
    """
    base, head, is_mean, _, inflation = statistic
    one, two = steps(base), steps(head)
    if min(len(base), len(head)) >= ENOUGH:
        return _of_values(values(base), values(head), level, is_mean=is_mean)
    of_steps = None
    if min(len(one), len(two)) > 1:
        of_steps = _of_values(one, two, level, is_mean=is_mean, inflation=inflation)
    spread = _between(base, head, statistic.machine)
    if spread is not None:
        return _wider(_of_recordings(statistic, spread, level), of_steps)
    return _wider(of_steps, statistics.welch(_blocks(one), _blocks(two), level)) if of_steps and by_blocks else of_steps


def _of_values(base: F64, head: F64, level: float, *, is_mean: bool, inflation: float = 1.0) -> Tested:
    return (statistics.welch if is_mean else statistics.rank_sum)(base, head, level, inflation)


def _blocks(of_steps: F64) -> F64:
    """Means of neighbouring steps."""
    return np.array([block.mean() for block in np.array_split(of_steps, min(BLOCKS, len(of_steps)))])


def _of_recordings(statistic: Statistic, spread: Spread, level: float) -> Tested:
    """Hold the change against the deviation between recordings."""
    of = values if are_units(statistic.base, statistic.head) else steps
    middle = np.mean if statistic.is_mean else np.median
    before, after = (float(middle(of(side))) for side in (statistic.base, statistic.head))
    most = max(len(statistic.base), len(statistic.head))
    error = spread.deviation * math.sqrt(1 / len(statistic.base) + 1 / len(statistic.head))
    error *= 1.0 if statistic.is_mean or most < 3 else _OF_MEDIANS
    change = math.log(after / before)
    freedom = min(_HEAVY, spread.freedom)
    reach = statistics.quantile(level, freedom) * error
    low, high = (after * math.exp(end) - before for end in (-reach, reach))
    p = statistics.two_sided_p(change / error, freedom) if error else float(change == 0)
    return Tested(after - before, (low, high), p)


def _wider(one: Tested, two: Tested | None) -> Tested:
    """A change that both tests see."""
    if two is None:
        return one
    p = max(one.p, two.p)
    if one.interval is None or two.interval is None:
        return Tested(one.change, None, p)
    low, high = zip(one.interval, two.interval, strict=True)
    return Tested(one.change, (min(low), max(high)), p)


def _between(base: Runs, head: Runs, machine: Spread | None) -> Spread | None:
    """The deviation between recordings, pooled; None where nothing shows it."""
    sides = [values(side) for side in (base, head)]
    if min(float(side.min()) for side in sides) <= 0:
        return None  # steps without any length, of damaged traces
    own = _pooled(map(np.log, sides))
    if own is None or machine is None:
        return own or machine
    ratio = (own.deviation / machine.deviation) ** 2 if machine.deviation else math.inf
    if statistics.exceeds(ratio, own.freedom, machine.freedom) < _OTHER:
        return own  # the machine is noisier than it was
    freedom = own.freedom + machine.freedom
    squares = math.fsum(each.freedom * each.deviation**2 for each in (own, machine))
    return Spread(math.sqrt(squares / freedom), freedom)


def _pooled(groups: Iterable[F64]) -> Spread | None:
    """Standard deviation within groups of several values."""
    several = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    if not freedom:
        return None
    squares = math.fsum(float(((group - group.mean()) ** 2).sum()) for group in several)
    return Spread(math.sqrt(squares / freedom), freedom)


def by_program(names: Iterable[str]) -> dict[str, list[str]]:
    """Recordings by their folder: those in one folder are of one program."""
    folders: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        folders[posixpath.dirname(name)].append(name)
    return folders


def of_programs(name: str, programs: Sequence[Measurement]) -> Noise:
    """How much recordings of unchanged programs differ.

    Raises:
        UnusableInputError: No program was recorded twice.
    """
    several = [program for program in programs if len(program.runs) > 1]
    typical = _pooled(np.log(values(each.durations)) for each in several)
    average = _pooled(np.log(values(each.all_runs or each.durations)) for each in several)
    if typical is None or average is None:
        raise UnusableInputError(
            f"{name}: shows no noise between recordings; record an unchanged program several times into one folder, "
            "better 10 times or more (--noise)"
        )
    recordings = sum(len(each.runs) for each in several)
    return Noise(name, len(several), recordings, typical.deviation, average.deviation, typical.freedom)
