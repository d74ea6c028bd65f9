"""Is one set of step times different from another? Tests that hold for few steps, and intervals that fit them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from traceanalyzer.trace.table import F64

_TINY = 1e-300
_PRECISION = 1e-14
_MOST_TERMS = 500


def two_sided_p(t: float, freedom: float) -> float:
    """The probability of a value as far from 0 as `t` or farther.

    Args:
        t: The statistic; infinite is allowed.
        freedom: Degrees of freedom, above 0, not necessarily whole.
    """
    return 0.0 if math.isinf(t) else _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def quantile(level: float, freedom: float) -> float:
    """The `t` that is exceeded on either side with the probability `level`."""
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > level:
        low = high
        high = 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided_p(middle, freedom) > level else (low, middle)
    return high


def exceeds(ratio: float, freedom: float, of_other: float) -> float:
    """The probability of a ratio of two variances as large or larger if both are the same (the F test)."""
    return 0.0 if math.isinf(ratio) else _beta(of_other / (of_other + freedom * ratio), of_other / 2, freedom / 2)


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, the other tail does not
        return 1 - _beta(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b), by Lentz's method."""
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


# Two questions, because steps have outliers. Did the typical step change: the exact rank-sum test of Wilcoxon, Mann
# and Whitney with the shift of Hodges and Lehmann, which no outlier moves. Did the mean change: Welch's test. A
# percentile bootstrap is not used: at 3 to 6 steps its intervals are too narrow by far.
#
# Neighbouring steps are often alike (a slow phase, a warm-up); then n steps say less than n independent ones. Where
# the steps show that, intervals are widened as for an autoregressive process of first order.

_EXACT_UP_TO = 120
"""Steps of both sides together for which every division into two is counted; the normal law is close beyond."""

_ALIKE = 1.0
"""Standard errors above 0 beyond which neighbouring steps count as alike. Own choice, by simulation: one of six pairs
of unrelated runs is widened for nothing, and most slow phases of ten steps are seen; five steps are too few at any."""

_LARGEST_CORRELATION = 0.95


@dataclass(frozen=True)
class Tested:
    """A change with its interval and its probability by chance."""

    change: float
    interval: tuple[float, float] | None
    p: float


def welch(base: F64, head: F64, level: float, inflation: float = 1.0) -> Tested:
    """Test the difference of the means, for unequal variances.

    Args:
        base: At least two values.
        head: At least two values.
        level: Probability that the interval misses.
        inflation: Factor on the standard error.
    """
    change = float(head.mean() - base.mean())
    errors = [float(values.var(ddof=1)) / len(values) for values in (base, head)]
    error = math.sqrt(math.fsum(errors)) * inflation
    if error == 0:
        return Tested(change, (change, change), 1.0 if change == 0 else 0.0)
    # of Welch and Satterthwaite
    freedom = math.fsum(errors) ** 2 / math.fsum(
        e * e / (len(v) - 1) for e, v in zip(errors, (base, head), strict=True)
    )
    reach = quantile(level, freedom) * error
    return Tested(change, (change - reach, change + reach), two_sided_p(change / error, freedom))


def rank_sum(base: F64, head: F64, level: float, inflation: float = 1.0) -> Tested:
    """Test the shift between two samples by ranks; exact for small samples, ties included."""
    pairs = np.sort((head[:, None] - base[None, :]).ravel())
    shift = float(np.median(pairs))
    doubled = _doubled_ranks(np.concatenate((base, head)))
    sums, chances = _null(tuple(doubled.tolist()), len(head))
    middle = len(head) * (len(base) + len(head) + 1)  # of the doubled sum
    distance = abs(int(doubled[len(base) :].sum()) - middle)
    p = min(1.0, float(chances[np.abs(sums - middle) >= distance].sum()))
    if inflation > 1 and not are_apart(base, head):
        p = _deflated(p, inflation)
    outside = _outside(len(base), len(head), level)
    if outside is None:
        return Tested(shift, None, p)
    low = float(pairs[outside])
    high = float(pairs[len(pairs) - 1 - outside])
    return Tested(shift, (shift + (low - shift) * inflation, shift + (high - shift) * inflation), p)


def are_apart(base: F64, head: F64) -> bool:
    """Whether the sides are further apart than each is wide without outliers; no drift within a side explains that."""
    gap = max(base.min() - head.max(), head.min() - base.max())
    return bool(gap > max(np.subtract(*np.quantile(side, (0.75, 0.25))) for side in (base, head)))


def inflation(*runs: Sequence[float]) -> float:
    """Factor on standard errors because neighbouring values of the runs are alike; 1 if they are not.

    Args:
        runs: Values in the order of time, one sequence per run.
    """
    products, squares, pairs = 0.0, 0.0, 0
    for run in runs:
        values = np.asarray(run, np.float64)
        if len(values) < 3:
            continue
        ranks = _doubled_ranks(values) / 2.0  # an outlier must not hide or make a correlation
        ranks -= ranks.mean()
        products += float((ranks[1:] * ranks[:-1]).sum()) + float((ranks**2).mean())  # unrelated: mean 0
        squares += float((ranks**2).sum())
        pairs += len(values)
    if not squares:
        return 1.0
    correlation = products / squares
    if correlation * math.sqrt(pairs) < _ALIKE:
        return 1.0
    correlation = min(correlation, _LARGEST_CORRELATION)
    return math.sqrt((1 + correlation) / (1 - correlation))


def _doubled_ranks(values: F64) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Twice the ranks from 1; equal values share the mean of theirs."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return (below + up_to + 1).astype(np.int64)


def _null(ranks: tuple[int, ...], chosen: int) -> tuple[F64, F64]:
    """Sums of `chosen` of the doubled ranks and their probabilities, if each choice is as likely."""
    ordered = tuple(sorted(ranks))
    return _counted(ordered, chosen) if len(ordered) <= _EXACT_UP_TO else _approximated(ordered, chosen)


@lru_cache(maxsize=256)
def _counted(ranks: tuple[int, ...], chosen: int) -> tuple[F64, F64]:
    """Count all choices of ranks, one rank after the other."""
    largest = sum(ranks[-chosen:])
    ways = np.zeros((chosen + 1, largest + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : largest + 1 - rank]
    row = ways[chosen]
    sums = np.flatnonzero(row)
    return sums.astype(np.float64), row[sums] / row.sum()


def _approximated(ranks: tuple[int, ...], chosen: int) -> tuple[F64, F64]:
    """The normal law with the variance of these ranks, at every whole sum."""
    values = np.asarray(ranks, np.float64)
    count = len(values)
    deviation = math.sqrt(chosen * (count - chosen) / count * float(values.var(ddof=1))) or 1.0
    middle = chosen * float(values.mean())
    sums = np.arange(round(middle - 8 * deviation), round(middle + 8 * deviation) + 1, dtype=np.float64)
    density = np.exp(-(((sums - middle) / deviation) ** 2) / 2)
    return sums, density / density.sum()


@lru_cache(maxsize=256)
def _outside(base: int, head: int, level: float) -> int | None:
    """How many pair differences lie below the interval of the shift; None where there are too few for one."""
    sums, chances = _null(tuple(range(2, 2 * (base + head) + 1, 2)), head)
    counts = (sums - head * (head + 1)) / 2  # of Mann and Whitney
    below = np.cumsum(chances)
    allowed = counts[below <= level / 2]
    return int(allowed[-1]) if len(allowed) else None


def _deflated(p: float, factor: float) -> float:
    """The p of a normal statistic that is smaller by the factor."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > p else (low, middle)
    return math.erfc(high / factor / math.sqrt(2))
