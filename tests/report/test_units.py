"""Quantities as people read them."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.report import units

TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

integers = st.integers(-(10**18), 10**18) | st.integers(0, 63).map(lambda bits: 2**bits - 1)
floats = st.floats(-1e18, 1e18) | st.integers(0, 10**12).map(lambda n: n / 1000)
quantities = integers | floats


def split(text: str) -> tuple[Decimal, str]:
    """Number and unit of a rendered quantity, which is never written with an exponent."""
    match = re.fullmatch(r"(\u2212?(?:\d{1,4}|\d{1,3}(?:,\d{3})+)(?:\.\d+)?)(?: (\S+))?", text)
    assert match, text
    return Decimal(match[1].replace(",", "").replace("\u2212", "-")), match[2] or ""


def significant(number: Decimal) -> int:
    return len(number.as_tuple().digits)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0 ns"),
        (1, "ns", "1 ns"),
        (999, "ns", "999 ns"),
        (999.4, "ns", "999 ns"),
        (999.7, "ns", "1.000 us"),
        (1000, "ns", "1.000 us"),
        (1_234, "ns", "1.234 us"),
        (12_345, "ns", "12.35 us"),
        (123_456, "ns", "123.5 us"),
        (999_949, "ns", "999.9 us"),
        (999_951, "ns", "1.000 ms"),
        (9_999_600, "ns", "10.00 ms"),
        (99_996_000, "ns", "100.0 ms"),
        (148_736_167, "ns", "148.7 ms"),
        (2_000_000_000, "ns", "2.000 s"),
        (3_600_000_000_000, "ns", "3,600 s"),
        (-1_500, "ns", "\u22121.500 us"),
        (0, "bytes", "0 B"),
        (1023, "bytes", "1023 B"),
        (1024, "bytes", "1.000 KiB"),
        (2**20 - 1, "bytes", "1.000 MiB"),
        (101_302_272, "bytes", "96.61 MiB"),
        (85_029_158_912, "bytes", "79.19 GiB"),
        (-4096, "bytes", "\u22124.000 KiB"),
        (0.6781683898894799, "share", "67.82 %"),
        (0, "share", "0.00 %"),
        (1, "share", "100.00 %"),
        (0.6781683898894799, "rounded_share", "68 %"),
        (0, "rounded_share", "0 %"),
        (1, "rounded_share", "100 %"),
        (0.99999, "rounded_share", "100 %"),
        (0.9962, "rounded_share", "99 %"),
        (-0.9962, "rounded_share", "\u221299 %"),
        (0.05, "rounded_share", "5 %"),
        (0.0345, "rounded_share", "3.5 %"),
        (0.0012345, "rounded_share", "0.12 %"),
        (0.00001, "rounded_share", "0.001 %"),
        (1e-9, "rounded_share", "0 %"),
        (2.444, "rounded_share", "240 %"),
        (0.0304, "exact_share", "3.04 %"),
        (12_345_678, "count", "12,345,678"),
        (0, "count", "0"),
        (7 / 3, "count", "2.3"),
        (1.23456, "number", "1.235"),
        (1234.56, "number", "1,235"),
        (0.0741, "number", "0.074"),
        (0, "number", "0"),
        (12_345.0, "number", "12,345"),
        (9.9996, "number", "10.00"),
        (True, "bool", "yes"),
        (False, "bool", "no"),
        ("text", "", "text"),
        (12, "", "12"),
    ],
)
def test_examples(value: object, unit: str, text: str) -> None:
    assert units.render(value, unit) == text


@pytest.mark.parametrize("unit", ["ns", "bytes", "share", "count", "number", "bool", ""])
def test_what_is_unknown_is_called_unknown(unit: str) -> None:
    assert units.render(None, unit) == "unknown"


def test_units_that_do_not_exist_are_refused() -> None:
    with pytest.raises(KeyError):
        units.render(1, "miles")


@pytest.mark.parametrize(("unit", "factors"), [("ns", TIMES), ("bytes", SIZES)])
@given(value=quantities)
def test_scaled_quantities_keep_their_value(unit: str, factors: dict[str, int], value: float) -> None:
    """In the unit that fits, to half of the last digit."""
    number, name = split(units.render(value, unit))
    assert abs(number * factors[name] - Decimal(value)) <= max(
        abs(Decimal(value)) * Decimal("0.000501"), Decimal("0.5") * (name in {"ns", "B"})
    )
    steps = sorted(factors.values())
    above = [factor for factor in steps if factor > factors[name]]
    if above:
        assert abs(number) * factors[name] < above[0], "the next unit would fit"
    if factors[name] > 1:
        assert abs(number) >= 1, "a smaller unit would fit"
        assert significant(number) == 4 or abs(number) >= 10_000


@pytest.mark.parametrize("unit", ["ns", "bytes"])
@given(one=quantities, other=quantities)
def test_more_is_never_shown_as_less(unit: str, one: float, other: float) -> None:
    factors = TIMES | SIZES
    low, high = (split(units.render(abs(value), unit)) for value in sorted((one, other), key=abs))
    assert factors[low[1]] <= factors[high[1]]
    assert low[0] * factors[low[1]] <= high[0] * factors[high[1]]


@given(quantities)
def test_numbers_have_four_digits(value: float) -> None:
    """Four significant ones from 1 on, three decimals below."""
    number, name = split(units.render(value, "number"))
    assert name == ""
    assert abs(number - Decimal(value)) <= max(abs(Decimal(value)), 1) * Decimal("0.000501")
    assert significant(number) <= 4 or abs(number) >= 10_000


@given(st.floats(-10, 10))
def test_shares_have_two_digits(value: float) -> None:
    number, name = split(units.render(value, "share"))
    assert name == "%"
    assert abs(number - 100 * Decimal(value)) <= Decimal("0.005001")


@given(integers)
def test_counts_are_exact(value: int) -> None:
    assert split(units.render(value, "count")) == (value, "")


@pytest.mark.parametrize(
    ("own", "whole", "text"),
    [
        (31e6, 149e6, "31 of the 149 ms"),
        (31_400_000, 149_400_000, "31 of the 149 ms"),
        (10_718_000, 10_743_000, "all 11 ms"),
        (1_254_000, 1_318_000, "1.25 of the 1.32 ms"),
        (300e6, 1_049e6, "0.30 of the 1.0 s"),
        (3e6, 19_999_999, "3.0 of the 20 ms"),
        (1_000, 152e6, "< 0.01 of the 152 ms"),
        (12, 19, "12 of the 19 ns"),
        (7_050_000_000, 10e9, "7.1 of the 10.0 s"),
        (25e9, 20e9, "25 of the 20 s"),
        (0, 0, "0 of the 0 ns"),
    ],
)
def test_a_part_and_its_whole_have_one_unit(own: float, whole: float, text: str) -> None:
    assert units.render((own, whole), "part") == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (152_500_000, "plain_ns", "152 ms"),
        (20_400_000, "plain_ns", "20 ms"),
        (10_718_000, "plain_ns", "11 ms"),
        (2_435_000, "plain_ns", "2.4 ms"),
        (7_050_000_000, "plain_ns", "7.1 s"),
        (999_960, "plain_ns", "1.0 ms"),
        (412, "plain_ns", "412 ns"),
        (0, "plain_ns", "0 ns"),
        (-3_200_000, "plain_ns", "\u22123.2 ms"),
        (35_070_000, "+plain_ns", "+35 ms"),
        (3_600_000_000_000, "plain_ns", "3,600 s"),
        (101_302_272, "plain_bytes", "97 MiB"),
        (101_302, "plain_bytes", "99 KiB"),
    ],
)
def test_in_sentences_measured_quantities_are_whole_or_have_one_decimal(value: float, unit: str, text: str) -> None:
    assert units.render(value, unit) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.676, "68 %"), (0.004, "0.4 %"), (0.0, "0 %"), (1.0, "100 %"), (0.998, "99 %"), (0.99999, "100 %")],
)
def test_shares_in_sentences_are_whole_and_only_all_is_100(share: float, text: str) -> None:
    assert units.render(share, "percent") == text


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (35_070_000, "+ns", "+35.07 ms"),
        (-35_070_000, "+ns", "\u221235.07 ms"),
        (0.2, "+ns", "0 ns"),
        (0.2069, "+share", "+20.69 %"),
        (1024, "+bytes", "+1.000 KiB"),
        (-12.27, "+number", "\u221212.27"),
        (2.758, "factor", "2.76"),
        (2.0, "factor", "2"),
        (0.1234, "factor", "0.12"),
        (12.34, "factor", "12.3"),
        (9.999, "factor", "10"),
        (1234.0, "factor", "1,230"),
        (0.02857, "probability", "= 0.029"),
        (0.00096, "probability", "< 0.001"),
        (0.0, "probability", "< 0.001"),
    ],
)
def test_changes_have_a_sign_and_no_probability_is_zero(value: float, unit: str, shown: str) -> None:
    assert units.render(value, unit) == shown


@pytest.mark.parametrize(
    ("step_ns", "unit"), [(4_000_000, 1000), (44_000_000, 10**6), (1_200_000_000, 10**6), (15_000_000_000, 10**9)]
)
def test_parts_of_a_step_have_a_unit_of_which_it_has_at_least_ten(step_ns: int, unit: int) -> None:
    """A GPU that idles 3.6 of 4.0 ms does not idle "all 4 ms": these are 3,600 of 4,000 us."""
    assert units.whole_unit(step_ns) == unit
