"""Printed values and their exact integers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.readers.key_averages.values import Value, ValueKind, read_value

UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (ValueKind.TIME, "0.000us", Value(0, 1)),
        (ValueKind.TIME, "1.234ms", Value(1_234_000, 1000)),
        (ValueKind.TIME, "28.157s", Value(28_157_000_000, 10**6)),
        (ValueKind.TIME, "-4005.017us", Value(-4_005_017, 1)),
        (ValueKind.TIME, "0.0005us", Value(0, 1)),
        (ValueKind.TIME, "0.0015us", Value(2, 1)),
        (ValueKind.BYTES, "0 b", Value(0, 1)),
        (ValueKind.BYTES, "-12 B", Value(-12, 1)),
        (ValueKind.BYTES, "31.27 Kb", Value(32020, 11)),
        (ValueKind.BYTES, "1.50 Gb", Value(1_610_612_736, 10_737_419)),
        (ValueKind.BYTES, "-217.90 GB", Value(-233_968_343_450, 10_737_419)),
        (ValueKind.SHARE, "94.51%", Value(0.9451)),
        (ValueKind.SHARE, "104.25%", Value(1.0425)),
        (ValueKind.SHARE, "-3.44%", Value(-0.0344)),
        (ValueKind.SHARE, "0", Value(None)),
        (ValueKind.SHARE, "NaN", Value(None)),
        (ValueKind.COUNT, "126000", Value(126_000)),
        (ValueKind.NODE, "-1", Value(-1)),
        (ValueKind.FLOPS, "--", Value(None)),
    ],
)
def test_values(kind: ValueKind, text: str, expected: Value) -> None:
    assert read_value(kind, text) == expected


def test_flops_are_scaled_by_the_header() -> None:
    assert read_value(ValueKind.FLOPS, "15.552", 3) == Value(15_552, 1)
    assert read_value(ValueKind.FLOPS, "0.500", 9) == Value(500_000_000, 10**6)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ValueKind.TIME, "1.234"),
        (ValueKind.TIME, "1.234m"),
        (ValueKind.TIME, "1,234ms"),
        (ValueKind.TIME, "99999999999999s"),  # beyond int64
        (ValueKind.TIME, "1" * 5000 + "us"),
        (ValueKind.TIME, "٣us"),  # a digit, but not one that torch prints
        (ValueKind.SHARE, "94.51"),
        (ValueKind.SHARE, "00"),
        (ValueKind.BYTES, "12"),
        (ValueKind.BYTES, "1.5 XB"),
        (ValueKind.BYTES, "12 iB"),
        (ValueKind.COUNT, "-1"),
        (ValueKind.COUNT, "2O"),
        (ValueKind.COUNT, ""),
        (ValueKind.FLOPS, "-"),
    ],
)
def test_what_is_no_value(kind: ValueKind, text: str) -> None:
    assert read_value(kind, text) is None


@given(mantissa=st.integers(-(10**6), 10**9), decimals=st.integers(0, 6), unit=st.sampled_from(sorted(UNITS)))
def test_times_are_exact_and_rounded_half_to_even(mantissa: int, decimals: int, unit: str) -> None:
    whole, fraction = divmod(abs(mantissa), 10**decimals)
    text = f"{'-' * (mantissa < 0)}{whole}{f'.{fraction:0{decimals}d}' if decimals else ''}{unit}"
    value = read_value(ValueKind.TIME, text)
    assert value is not None
    assert value.value == round(Fraction(mantissa * UNITS[unit], 10**decimals))
    assert value.step == max(1, UNITS[unit] // 10**decimals)
