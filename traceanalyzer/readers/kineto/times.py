"""Converts decimal microseconds to integer nanoseconds, exactly and by the million."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache

import numpy as np

from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, Array

_COMMA, _POINT, _MINUS, _ZERO = b",.-0"
_MAX_INTEGER_DIGITS = 16
"""Microseconds since 1970 have 16 digits; in nanoseconds int64 holds them while the first is below 4."""

_LARGEST_EXPONENT = 20
_MAX_SIZE = 60
_FORM = 64
"""Tokens of one size with the point in one place have one form: size * 64 + place of the point."""

_MARGIN = b"0" * 16
"""Text around the tokens, so that sixteen characters before each point, and eight from it on, can be read."""

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_9 = np.uint64(0x7676767676767676)
"""Added to a byte, it sets the highest bit of those above 9."""

_HIGHEST_BITS = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_LAST = np.array([(2**64 - 1) ^ (2 ** (8 * (8 - count)) - 1) for count in range(9)], np.uint64)
"""Masks of the last N of eight characters, by N."""

_DECIMALS = np.array([0, 0xFF00, 0xFFFF00, 0xFFFFFF00], np.uint64)
"""Masks of the first N characters after the point, by N."""

INVALID = np.iinfo(np.int64).min
"""Marks a time that is not a number or beyond 64 bits."""


def nanoseconds(texts: Iterable[bytes], length: int) -> I64:
    """Parse decimal microseconds, rounded half up at the nanosecond.

    Args:
        texts: JSON number tokens (`12`, `-3.5`, `1712195495519695.800`); any bytes-like object.
        length: How many there are.

    Returns:
        Nanoseconds, with `INVALID` for what is missing, no number, or beyond 64 bits.
    """
    if not length:
        return np.empty(0, np.int64)
    given = list(texts)
    joined = np.frombuffer(b",".join([_MARGIN, *given, _MARGIN]), np.uint8)
    value = _parse_plain(joined, length)
    if value is not None:
        return value
    joined = joined[len(_MARGIN) + 1 : -len(_MARGIN)]
    ends = np.flatnonzero(joined == _COMMA)
    if len(ends) != length:  # a comma inside a text: no number
        return nanoseconds([b"" if b"," in bytes(text) else text for text in given], length)
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    points = np.append(np.flatnonzero(joined == _POINT), len(joined))
    whole = np.minimum(points[np.searchsorted(points, starts)] - starts, sizes)  # digits before the point
    form = sizes * _FORM + np.minimum(whole, _FORM - 1)
    out = np.empty(length, np.int64)
    for value in distinct(form).tolist():
        rows = np.flatnonzero(form == value)
        size, before = divmod(value, _FORM)
        tokens = np.lib.stride_tricks.sliding_window_view(joined, size + 1)[starts[rows], :size]
        out[rows] = _parse(tokens, before)
    return out


def _parse_plain(joined: Array, length: int) -> I64 | None:
    """Parse the usual case, eight characters at a time; None if any token is not plain.

    Plain tokens have no sign, at most 16 digits and three decimals, and either all of them have a point or none.

    Args:
        joined: The tokens with a comma before and behind each, and margins.
        length: How many tokens there are.
    """
    equal = _equal_sizes(joined, length)
    if equal is not None:
        return equal
    commas = np.flatnonzero(joined == _COMMA)
    if len(commas) != length + 1:
        return None
    ends = commas[1:]
    points = np.flatnonzero(joined == _POINT)
    if not len(points):
        points = ends
    elif len(points) != length:
        return None
    whole, decimals = points - commas[:-1] - 1, np.maximum(ends - points - 1, 0)
    if whole.min() < 1 or whole.max() > _MAX_INTEGER_DIGITS or decimals.max() > 3 or (points > ends).any():
        return None
    words = np.ndarray(len(joined) - 7, "<u8", joined, strides=(1,))
    high = (words[points - 16] ^ _ZEROS) & _LAST[np.maximum(whole - 8, 0)]
    low = (words[points - 8] ^ _ZEROS) & _LAST[np.minimum(whole, 8)]
    return _value(high, low, (words[points] ^ _ZEROS) & _DECIMALS[decimals])


def _equal_sizes(joined: Array, length: int) -> I64 | None:
    """Parse plain tokens that all have the size of the first and three decimals, as writers of epochs make them.

    Where the point and the comma of each are is known then, so that nothing needs to be searched.
    """
    size, rest = divmod(len(joined) - 2 * len(_MARGIN) - 1, length)
    whole = size - 5  # three decimals, the point and the comma
    if rest or not 1 <= whole <= _MAX_INTEGER_DIGITS:
        return None
    first = len(_MARGIN) + 1 + whole
    points = joined[first : first + size * length : size]
    commas = joined[first + 4 : first + 4 + size * length : size]
    if not ((points == _POINT).all() and (commas == _COMMA).all()):
        return None

    def words(at: int) -> Array:
        return np.ndarray(length, "<u8", joined, at, (size,)) ^ _ZEROS

    high, low = words(first - 16) & _LAST[max(whole - 8, 0)], words(first - 8) & _LAST[min(whole, 8)]
    return _value(high, low, words(first) & _DECIMALS[3])


def _value(high: Array, low: Array, after: Array) -> I64 | None:
    """Nanoseconds from digits, eight characters at a time with "0" taken off; None if any is not a digit, or too large.

    Args:
        high: The upper eight of sixteen digits before the point.
        low: The lower eight.
        after: Three digits behind the point.
    """
    if (high == high[0]).all():  # those of one time: once is enough
        high = high[:1]
    seen = high | low | after
    if ((seen | (high + _ABOVE_9) | (low + _ABOVE_9) | (after + _ABOVE_9)) & _HIGHEST_BITS).any():
        return None
    millions = _eight_digits(high)
    if millions.max() >= 4 * 10**7:
        return None
    micros = (millions * np.uint64(10**8) + _eight_digits(low)).view(np.int64)
    return micros * 1000 + _eight_digits(after << np.uint64(32)).view(np.int64)


def _eight_digits(digits: Array) -> Array:
    """The numbers that eight digits stand for, one a byte, the first in the lowest."""
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    first, second = pairs & _PAIRS, (pairs >> np.uint64(16)) & _PAIRS
    found: Array = (first * np.uint64(100 + (10**6 << 32)) + second * np.uint64(1 + (10**4 << 32))) >> np.uint64(32)
    return found


def _parse(tokens: Array, whole: int) -> I64:
    """Parse tokens of equal size, one a row, with `whole` characters before the point or the end."""
    size = tokens.shape[1]
    if not 0 < whole <= _MAX_INTEGER_DIGITS or size > _MAX_SIZE:
        return _parse_slowly(tokens)
    digits = tokens - _ZERO  # anything but a digit wraps around to above 9
    digits[:, whole : whole + 1] = 0  # the point
    negative = tokens[:, 0] == _MINUS
    digits[negative, 0] = 0
    value = digits[:, : whole + 4] @ _weights(size, whole)
    if size > whole + 4:
        value += digits[:, whole + 4] >= 5
    value[negative] *= -1
    if digits.max() > 9 or whole in (1, _MAX_INTEGER_DIGITS):
        odd = (digits > 9).any(axis=1) | (negative & (whole == 1))
        odd |= (whole == _MAX_INTEGER_DIGITS) & (digits[:, 0] > 3)
        if odd.any():
            value[odd] = _parse_slowly(tokens[odd])
    return value


@cache
def _weights(size: int, whole: int) -> I64:
    """Weight of each character in nanoseconds; the point counts nothing."""
    exponents = [whole + 2 - i for i in range(whole)] + [None] + [2, 1, 0]
    return np.array([0 if e is None else 10**e for e in exponents[: min(size, whole + 4)]], np.int64)


def _parse_slowly(tokens: Array) -> I64:
    """Parse exponents, quoted numbers, very long numbers, and everything that is not a number."""
    out = np.full(len(tokens), INVALID, np.int64)
    for row, token in enumerate(tokens):
        text = token.tobytes().decode("ascii", "replace").strip('" ')
        try:
            exact = Decimal(text)
        except InvalidOperation:
            continue
        # Within 64 bits there is room for sums and differences of two times below 2**62.
        if exact.is_finite() and exact.adjusted() < _LARGEST_EXPONENT and abs(exact * 1000) < 2**62:
            out[row] = int((exact * 1000).to_integral_value(ROUND_HALF_UP))
    return out
