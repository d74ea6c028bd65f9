"""Student's t distribution, from the incomplete beta function (Abramowitz and Stegun 26.5.8, 26.7.1)."""

from __future__ import annotations

import math

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
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided_p(middle, freedom) > level else (low, middle)
    return high


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
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
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
