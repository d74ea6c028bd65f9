"""Extracts one column of values from many events, at C speed where the values are well-formed.

Points in time are decimal microseconds, which become integer nanoseconds exactly; durations and other numbers go
through float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache
from itertools import compress, repeat
from operator import attrgetter, ne
from typing import Any

import numpy as np
from msgspec import Raw

from traceanalyzer.readers.kineto.events import NO_TEXT, Args, Event
from traceanalyzer.readers.kineto.fields import Description, attribute
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import F64, I32, I64, UNKNOWN, Array

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
    value = _parse_swar(joined, length)
    return _parse_by_form(given, joined) if value is None else value


def _parse_by_form(given: list[bytes], joined: Array) -> I64:
    """Parse tokens of one form together, a character of all of them at a time."""
    joined = joined[len(_MARGIN) + 1 : -len(_MARGIN)]
    ends = np.flatnonzero(joined == _COMMA)
    if len(ends) != len(given):  # a comma inside a text: no number
        return nanoseconds([b"" if b"," in bytes(text) else text for text in given], len(given))
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    # digits before the first point from the start of each token on, if it is in the token
    points = np.append(np.flatnonzero(joined == _POINT), len(joined))
    whole = np.minimum(points[np.searchsorted(points, starts)] - starts, sizes)
    forms = sizes * _FORM + np.minimum(whole, _FORM - 1)
    out = np.empty(len(given), np.int64)
    for form in distinct(forms).tolist():
        rows = np.flatnonzero(forms == form)
        size, before = divmod(form, _FORM)
        tokens = np.lib.stride_tricks.sliding_window_view(joined, size + 1)[starts[rows], :size]
        out[rows] = _parse(tokens, before)
    return out


def _parse_swar(joined: Array, length: int) -> I64 | None:
    """Parse the usual case by SWAR (SIMD within a register), eight characters at a time; None if a token is not plain.

    Eight digits in one 64-bit word become a number by three multiplications, as in Daniel Lemire, "Number Parsing at a
    Gigabyte per Second", Software: Practice and Experience 51 (2021), section 5; here for a whole column at once.

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
    # digits before and behind the point
    whole, decimals = points - commas[:-1] - 1, np.maximum(ends - points - 1, 0)
    if whole.min() < 1 or whole.max() > _MAX_INTEGER_DIGITS or decimals.max() > 3 or (points > ends).any():
        return None
    # the eight characters from each position on, as one word; what precedes or follows the token is masked out
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
    # a byte of 10 or more gets its highest bit by the addition, and one of 128 or more has it already
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
    # of each two bytes the number of two digits, then of both halves their sum, weighted by one multiplication each
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    first, second = pairs & _PAIRS, (pairs >> np.uint64(16)) & _PAIRS
    return (first * np.uint64(100 + (10**6 << 32)) + second * np.uint64(1 + (10**4 << 32))) >> np.uint64(32)


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


_MAX_DURATION_US = 1e15
"""Longest duration, thirty years; longer ones are cut to it, and then left out as absurd."""

_INT64 = range(-(2**63), 2**63)


def durations(events: Sequence[Event]) -> I64:
    """Durations in nanoseconds; `INVALID` if there is none or it is not a number.

    Through float64, which is exact here: 2**-53 of a duration below 26 days is less than half a nanosecond.
    (Points in time are not: see `nanoseconds`.)
    """
    microseconds = _floats([e.dur for e in events])
    if (np.abs(microseconds) <= _MAX_DURATION_US).all():  # nearly always
        return np.rint(microseconds * 1000).astype(np.int64)
    known = np.isfinite(microseconds)
    clipped = np.clip(np.where(known, microseconds, 0), -_MAX_DURATION_US, _MAX_DURATION_US)
    return np.where(known, np.rint(clipped * 1000).astype(np.int64), INVALID)


def integers(values: list[Any], unknown: int = UNKNOWN) -> I64:
    """Integers, from numbers or from their text; `unknown` for everything else."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_integer(value, unknown) for value in values], np.int64)


def floats(values: list[Any]) -> F64:
    """Finite numbers; NaN for everything else."""
    finite = _floats(values)
    finite[~np.isfinite(finite)] = np.nan
    return finite


def _floats(values: list[Any]) -> F64:
    try:
        return np.fromiter(values, np.float64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_float(value) for value in values], np.float64)


def texts(raws: list[Raw], pool: StringPool[bytes]) -> I32:
    """Codes of raw JSON texts; code 0 is a missing one."""
    # compares by identity first: half the files record no texts
    if not raws or (raws[0] is NO_TEXT and raws.count(NO_TEXT) == len(raws)):
        return np.zeros(len(raws), np.int32)
    # JSON has no NUL in a text; to cut a copy of all of them at it takes a third of the time of a copy of each
    return pool.codes(b"\0".join(raws).split(b"\0"), len(raws))


def descriptions(args: Sequence[Args], description: Description, pool: StringPool[Any]) -> I32:
    """Codes of what arguments describe together; code 0 for events that describe nothing.

    Args:
        args: The arguments of each event.
        description: What they describe.
        pool: Gives the codes.
    """
    codes = np.zeros(len(args), np.int32)
    for row in _told(args, description):
        codes[row] = pool.encode(described(args[row], description))
    return codes


def _told(args: Sequence[Args], description: Description) -> Iterator[int]:
    """Rows of the events that describe something, which few do."""
    missing = [description.defaults[key] for key in description.told_by]
    told: list[Any] = list(map(attrgetter(*map(attribute, description.told_by)), args))
    none = tuple(missing) if len(missing) > 1 else missing[0]
    if told.count(none) == len(told):
        return iter(())
    return compress(range(len(told)), map(ne, told, repeat(none)))


def described(args: Args, description: Description) -> Any:
    """What arguments of an event describe."""
    values = ((getattr(args, attribute(key)), none) for key, none in description.defaults.items())
    return description.described(*(_count(value) if none is None else str(value) for value, none in values))


def _count(value: Any) -> int | None:
    number = _integer(value, UNKNOWN)
    return None if number < 0 else number


def _integer(value: Any, unknown: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return unknown
    return number if number in _INT64 else unknown


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def small(values: I64) -> I32:
    """Ids that fit 32 bits; others become unknown."""
    return np.where(np.abs(values) < 2**31, values, UNKNOWN).astype(np.int32)
