"""Writes quantities as people read them; everything else in the package is plain integers and fractions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import copysign, floor, fsum, inf, isfinite
from typing import Any

_TIME = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
_SIZE = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
UNKNOWN = "unknown"
MINUS = "\u2212"
"""The sign before negative numbers; a hyphen is shorter and may end a line."""
PERCENT = "%"
_ALL = 99.99
"""From so many percent on, what is missing is nothing but rounding."""
_HYPHEN = re.compile(r"(?<![\d.])-(?=\d)")
SYMBOLS = (*(symbol for scale in (_TIME, _SIZE) for _, symbol in scale), PERCENT)
"""Units that may follow a number."""


_NEARLY_ALL = 0.98
"""Share from which on a part is all of a time whose rounded number is the same (own choice)."""

_ABOUT_TEN = 9.5
"""Least number of units that is written without decimals."""
_FINE = 19.95
"""Number of units below which a whole has the decimal of its part: 5.0 of the 10.4 ms (own choice)."""
_FEWEST = 1.5
"""Least number of units of an estimate without decimals (own choice: one unit is too coarse)."""
_NEAR = 0.1
"""Share by which leaving out decimals may change an estimate, or its interval be narrow (own choice)."""
_WHOLE_COUNT, _ANY_COUNT = 9.95, 0.1
"""Mean numbers of things from which on they are written without decimals, and with one (own choice)."""
_UP = 1 + 1e-12
"""Factor by which numbers in the middle of two are rounded up, as people do: 7.05 is 7.0499999999999998 in binary."""
_NO_DECIMAL = 0.005
"""Greatest distance to a whole number, as a share of it, that is nothing in three significant digits."""


def nanoseconds(value: float) -> str:
    """A time such as `148.7 ms`: four significant digits in the unit that fits."""
    return _scaled(value, _TIME)


def size(value: float) -> str:
    """A number of bytes such as `96.61 MiB`, in powers of 1024."""
    return _scaled(value, _SIZE)


def share(value: float) -> str:
    """A share in percent, such as `67.82 %` for 0.6782."""
    return f"{100 * value:.2f} %"


def rounded_share(value: float) -> str:
    """A share in percent for sentences, such as `68 %`, `3.5 %` or `0.12 %`: two significant digits at most.

    Only what is all of something is written as `100 %`.
    """
    percents = 100 * value
    two = _two_digits(percents)
    if abs(two) == 100 and abs(percents) < _ALL:
        two = copysign(99, percents)
    number = f"{two:,.{0 if abs(two) >= 10 else 1 if abs(two) >= 1 else 4}f}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} %"


def percent(value: float) -> str:
    """A share in whole percent, such as `68 %` for 0.6782, for sentences; of nothing else `0 %`, of all `100 %`."""
    whole = round(100 * value)
    return rounded_share(value) if whole in (0, 100) else f"{whole} %"


def total(values: Iterable[float]) -> float:
    """The sum; infinite where the numbers of an absurd report have none."""
    try:
        return fsum(values)
    except OverflowError:
        return inf


def adding_up(shares: Sequence[float]) -> list[float]:
    """Shares of one whole as whole percents that add up like the shares, by largest remainder."""
    percents = [100 * share for share in shares]
    if not isfinite(total(abs(each) for each in percents)):  # nothing can add up in an absurd report
        return [*shares]
    whole = [floor(each) for each in percents]
    missing = round(fsum(percents)) - sum(whole)
    for number in sorted(range(len(whole)), key=lambda number: whole[number] - percents[number])[:missing]:
        whole[number] += 1
    return [each / 100 for each in whole]


def part(value: Sequence[float]) -> str:
    """A time and the time that it is a part of, both in ns, such as `35 of the 152 ms`, or `all 152 ms`."""
    time, whole, symbol = part_amounts(value)
    return f"all {whole} {symbol}" if time == whole != "0" else f"{time} of the {whole} {symbol}"


def part_amounts(value: Sequence[float]) -> tuple[str, str, str]:
    """The numbers of a part and of its whole, and the unit of both, which is one of `SYMBOLS`."""
    time, whole = value
    number, _, symbol = plain_time(whole).partition(" ")
    unit = next(factor for factor, each in _TIME if each == symbol)
    in_unit, in_all = time / unit, whole / unit
    digits = 2 if 0 < in_unit < 0.95 else 1 if 0 < in_unit < 9.95 and symbol != "ns" else 0
    shown = _fixed(in_unit, digits)
    if digits == 1 and in_all < _FINE:
        number = f"{in_all * _UP:,.1f}"
    if shown == number and time < _NEARLY_ALL * whole and symbol != "ns":
        in_full = whole / time * in_unit
        digits = 1 if digits == 0 and f"{in_unit:.1f}" != f"{in_full:.1f}" else 2
        return f"{in_unit:,.{digits}f}", f"{in_full:,.{digits}f}", symbol
    return "< 0.01" if in_unit > 0 and is_zero(shown) else shown, number, symbol


def _fixed(number: float, digits: int) -> str:
    return f"{number * _UP if digits else number:,.{digits}f}"


def plain_time(value: float) -> str:
    """A measured time for sentences, such as `152 ms` or `9.7 ms`: a whole number, below ten with one decimal."""
    return _plain(value, _TIME)


def plain_size(value: float) -> str:
    """A number of bytes for sentences, such as `97 MiB`."""
    return _plain(value, _SIZE)


def _plain(value: float, units: tuple[tuple[int, str], ...]) -> str:
    scaled = ((value / factor, symbol, factor == 1) for factor, symbol in units)
    number, symbol, is_smallest = next(each for each in scaled if abs(round(each[0], 1)) >= 1 or each[2])
    return f"{number:,.0f} {symbol}" if is_smallest or abs(number) >= 9.95 else f"{number * _UP:,.1f} {symbol}"


def whole_time(value: float) -> str:
    """A time without decimals, such as `152 ms` or `3,710 us`: in the largest unit of which there are about ten."""
    return " ".join(_whole(value))


def whole_in(value: float, unit_ns: int) -> tuple[str, str] | None:
    """The number of a time without decimals in a unit, and its symbol; None if a larger unit says it as well."""
    symbol = next(each for factor, each in _TIME if factor == unit_ns)
    is_larger = unit_ns < _TIME[0][0] and abs(value) >= _ABOUT_TEN * 1000 * unit_ns
    return None if is_larger else (_three_digits(value / unit_ns), symbol)


def whole_share(value: float) -> str:
    """A share without decimals, such as `68 %`; `<1 %` is more than nothing, and only all of something is `100 %`."""
    percents = 100 * value
    whole = round(percents) if isfinite(percents) else percents
    if whole == 0 and value > 0:
        return f"<1 {PERCENT}"
    return f"{99 if whole == 100 and 100 * value < _ALL else whole} {PERCENT}"


def whole_part_amounts(value: Sequence[float]) -> tuple[str, str, str]:
    """The numbers of a part and of its whole without decimals, and the unit of both, which is one of `SYMBOLS`."""
    time, whole = value
    unit = whole_unit(whole)
    shown = _three_digits(time / unit)
    symbol = next(each for factor, each in _TIME if factor == unit)
    return "<1" if time > 0 and is_zero(shown) else shown, _three_digits(whole / unit), symbol


def _whole(value: float) -> tuple[str, str]:
    """A time as a whole number of three significant digits and its unit; below ten only where that is no rounding."""
    scaled = ((value / factor, symbol) for factor, symbol in _TIME)
    fitting = (each for each in scaled if abs(each[0]) >= _ABOUT_TEN or _is_nearly_whole(each[0]))
    number, symbol = next(fitting, (value, _TIME[-1][1]))
    return _three_digits(number), symbol


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}') if abs(value) >= 1000 else value:,.0f}"


def whole_unit(value: float) -> int:
    """Nanoseconds of the unit in which parts of a time are written without decimals: there are at least ten of it."""
    return next((factor for factor, _ in _TIME if abs(value) >= _ABOUT_TEN * factor), _TIME[-1][0])


def _is_nearly_whole(value: float) -> bool:
    return abs(round(value)) >= 1 and abs(value - round(value)) < _NO_DECIMAL * abs(round(value))


def rounded_time(value: float) -> str:
    """A time for sentences, such as `150 ms` or `1.2 s`: two significant digits."""
    two = _two_digits(value)
    factor, symbol = next((unit for unit in _TIME if abs(two) >= unit[0]), _TIME[-1])
    digits = 0 if factor == 1 or abs(two) >= 10 * factor else 1
    return f"{two / factor:,.{digits}f} {symbol}"


def brief_time(value: float) -> str:
    """A time for a story, such as `585 ms` or `50.8 ms`: three significant digits."""
    factor, symbol = next((unit for unit in _TIME if abs(float(f"{value:.3g}")) >= unit[0]), _TIME[-1])
    three = float(f"{value / factor:.3g}")
    return f"{three:,.{0 if factor == 1 else max(0, 3 - len(str(int(abs(three)))))}f} {symbol}"


def estimate(value: Sequence[float | None]) -> str:
    """An estimated time, from its least, most likely (or None) and greatest value in ns: `28 ms (25-31)`, `25-31 ms`.

    Two significant digits, because an estimate has no more; the unit stands once.
    """
    return _estimate(*estimate_numbers(value, "estimate"))


def estimated_share(value: Sequence[float | None]) -> str:
    """A share with its interval, such as `19 % (17-21)` or `17-21 %`."""
    return _estimate(*estimate_numbers(value, "estimated_share"))


def estimated_size(value: Sequence[float | None]) -> str:
    """A number of bytes with its interval, such as `6.3-6.5 GiB`."""
    return _estimate(*estimate_numbers(value, "estimated_bytes"))


def whole_estimate(value: Sequence[float | None]) -> str:
    """An estimated time without decimals, such as `6 ms (4-8)`."""
    return _estimate(*estimate_numbers(value, "whole_estimate"))


def _estimate(low: str, point: str | None, high: str, symbol: str) -> str:
    unit = f" {symbol}"
    if low == high:
        return high + unit
    if point is not None:
        return f"{point}{unit} ({low}-{high})"
    return f"up to {high}{unit}" if is_zero(low) else f"{low}-{high}{unit}"


ESTIMATES = frozenset(("estimate", "estimated_share", "estimated_bytes", "whole_estimate"))
"""Units of estimates: least, most likely or None, and greatest value."""


def estimate_numbers(value: Sequence[float | None], unit: str) -> tuple[str, str | None, str, str]:
    """The numbers of an estimate, least, most likely and greatest, in one unit, which is one of `SYMBOLS`."""
    low, point, high = value
    most = _two_digits(high or 0.0)
    is_whole = unit == "whole_estimate"
    scale = _scale(value, unit)
    factor, symbol = next((each for each in scale if abs(most) >= each[0]), scale[-1])
    digits = 1 if abs(most) >= factor else 2
    if is_whole or symbol in (_TIME[-1][1], _SIZE[-1][1]) or abs(most) >= 10 * factor:
        digits = 0
    shown = [None if each is None else f"{_two_digits(each / factor):,.{digits}f}" for each in (low, point, high)]
    least = "0" if shown[0] is None or is_zero(shown[0]) else shown[0]
    return least, shown[1], shown[2] or "0", symbol


def _scale(value: Sequence[float | None], unit: str) -> tuple[tuple[float, str], ...]:
    """The units in which an estimate may be told, the largest first."""
    if unit == "estimated_share":
        return ((0.01, PERCENT),)
    if unit == "estimated_bytes":
        return _SIZE
    if unit != "whole_estimate":
        return _TIME
    return tuple(each for each in _TIME if _are_told_whole(value, each[0])) or _TIME[-1:]


def _are_told_whole(value: Sequence[float | None], factor: float) -> bool:
    """Whether an estimate in a unit loses little without decimals: neither its value nor that it is an interval."""
    low, point, high = (None if each is None else each / factor for each in value)
    likely, most, least = point or high or 0.0, high or 0.0, low or 0.0
    is_near = abs(likely) >= _FEWEST and abs(round(likely) - likely) <= _NEAR * abs(likely)
    return is_near and (round(least) != round(most) or most - least <= _NEAR * most)


def is_zero(number: str) -> bool:
    """Whether a number is shown as nothing."""
    return not number.strip("0.,-" + MINUS)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def count(value: float) -> str:
    """A number of things such as `12,345`; a mean that is not whole has one decimal below ten: `2.3`."""
    if isinstance(value, int) or value.is_integer() or abs(value) >= _WHOLE_COUNT:
        return f"{round(value):,}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= _ANY_COUNT else _significant(value)


def number(value: float) -> str:
    """A number such as `1.234`: four significant digits; without decimals where it is whole."""
    return f"{round(value):,}" if isinstance(value, int) or value.is_integer() else _significant(value)


def factor(value: float) -> str:
    """How many times as much, such as `2.76` or `32`: three significant digits at most."""
    rounded = float(f"{value:.3g}")
    number = f"{rounded:,.{max(0, 3 - len(str(int(rounded))))}f}"
    return number.rstrip("0").rstrip(".") if "." in number else number


def probability(value: float) -> str:
    """A probability with its sign of comparison, such as `= 0.029`; none is so small that it is 0: `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def text(value: object) -> str:
    """The value unchanged; several values are joined."""
    return ", ".join(map(text, value)) if isinstance(value, list | tuple) else str(value)


def ranges(numbers: Iterable[tuple[int, int]], most: int | None = None) -> str:
    """Write ranges of numbers, first and last included, such as `2, 5-127`.

    Args:
        numbers: First and last number of each range.
        most: Number of ranges to show; the others are replaced by three dots.
    """
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in numbers]
    return ", ".join(shown[:most]) + (", ..." if most is not None and len(shown) > most else "")


def yes_no(value: object) -> str:
    """Write a truth value as `yes` or `no`."""
    return "yes" if value else "no"


_FORMATS: dict[str, Callable[[Any], str]] = {
    "ns": nanoseconds,
    "bytes": size,
    "share": share,
    "exact_share": share,
    "rounded_share": rounded_share,
    "percent": percent,
    "part": part,
    "rounded_ns": rounded_time,
    "exact_ns": nanoseconds,
    "plain_ns": plain_time,
    "plain_bytes": plain_size,
    "brief_ns": brief_time,
    "estimate": estimate,
    "estimated_share": estimated_share,
    "estimated_bytes": estimated_size,
    "whole_ns": whole_time,
    "whole_share": whole_share,
    "whole_estimate": whole_estimate,
    "count": count,
    "number": number,
    "factor": factor,
    "probability": probability,
    "bool": yes_no,
    "": text,
}


def _signed(unit: str) -> Callable[[float], str]:
    """The format of a change, which has a sign in both directions: `+35.07 ms`."""

    def change(value: float) -> str:
        shown = _FORMATS[unit](value)
        return shown if value <= 0 or is_zero(shown.partition(" ")[0]) else f"+{shown}"

    return change


_SIGNED = ("ns", "plain_ns", "bytes", "share", "rounded_share", "number")
_FORMATS |= {f"+{unit}": _signed(unit) for unit in _SIGNED}


def render(value: Any, unit: str) -> str:
    """A quantity of a unit (a key of `_FORMATS`; "" is text)."""
    if not is_known(value):
        return UNKNOWN
    shown = _FORMATS[unit](value)
    return _HYPHEN.sub(MINUS, shown) if unit else shown


def is_known(value: Any) -> bool:
    """Whether there is a value; infinite ones come of reports with absurd numbers, which somebody wrote by hand."""
    return value is not None and not (isinstance(value, float) and not isfinite(value))


def amount(value: float, unit: str) -> tuple[str, str]:
    """A known quantity as its number and one of `SYMBOLS`, or "": `("148.7", "ms")`."""
    number, _, symbol = _FORMATS[unit](value).partition(" ")
    return number, symbol


IN_SENTENCES = {
    "share": "rounded_share",
    "+share": "+rounded_share",
    "ns": "plain_ns",
    "+ns": "+plain_ns",
    "bytes": "plain_bytes",
}
"""Units that are written differently in sentences than in tables. What a sentence compares with another quantity that
may be about as large, such as a limit, has the unit `exact_share` or `exact_ns`."""
WHOLE = {
    "ns": "whole_ns",
    "plain_ns": "whole_ns",
    "rounded_ns": "whole_ns",
    "brief_ns": "whole_ns",
    "share": "whole_share",
    "rounded_share": "whole_share",
    "percent": "whole_share",
    "estimate": "whole_estimate",
}
"""Units without decimals, of those that first screens have instead; bytes keep theirs, as people say 3.6 GiB."""
TIMES = frozenset(("ns", "plain_ns", "rounded_ns", "exact_ns", "whole_ns"))
UNITS = frozenset(_FORMATS)
"""Units that a field of a text or a column may name."""


def _scaled(value: float, units: tuple[tuple[int, str], ...]) -> str:
    """Scale to the largest unit of which there is at least one, after rounding: 999.96 us are 1.000 ms."""
    whole = round(value) if abs(value) < 1000 else value  # the smallest units are whole
    for factor, unit in units[:-1]:
        if abs(_rounded(whole / factor)) >= 1:
            return f"{_significant(whole / factor)} {unit}"
    return f"{round(value)} {units[-1][1]}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _significant(value: float) -> str:
    """Four significant digits, never an exponent, thousands grouped."""
    whole = len(str(int(abs(_rounded(value)))))
    return f"{value:,.{max(0, 4 - whole)}f}"
