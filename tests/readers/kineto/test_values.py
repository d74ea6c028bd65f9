"""Decimal microseconds become the exact nanoseconds, whatever their form and their neighbours."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from traceanalyzer.readers.kineto.values import INVALID, nanoseconds

_LIMIT = 2**62
"""Times beyond this leave no room for sums and differences."""
_EXACT = Context(prec=200, traps=[])

digits = st.text("0123456789", max_size=20)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Decimal texts of all sizes; some have no digit at all."""
    sign = draw(st.sampled_from(["", "", "", "-", "+"]))
    whole = draw(digits)
    fraction = draw(st.none() | st.text("0123456789", max_size=9))
    exponent = draw(st.sampled_from(["", "", "", "e3", "E-2", "e+0", "e12", "e-30"]))
    text = sign + whole + ("" if fraction is None else f".{fraction}") + exponent
    return draw(st.sampled_from([text, text, text, f'"{text}"', f' "{text}" ']))


garbage = st.sampled_from(
    ["", "-", ".", "-.", "1.2.3", "--1", "1-", "null", "true", "NaN", "-Infinity", '"abc"', "{}", "0x10", "1e", "é"]
)
stamps = st.integers(1_500_000_000_000_000, 1_900_000_000_000_000).flatmap(
    lambda whole: st.integers(0, 999).map(lambda part: f"{whole}.{part:03d}")
)


def expected(text: str) -> int:
    """The times by decimal arithmetic."""
    try:
        value = Decimal(text.strip('" '))
    except InvalidOperation:
        return INVALID
    if not value.is_finite() or value.adjusted() > 20:
        return INVALID
    scaled = int(_EXACT.multiply(value, Decimal(1000)).to_integral_value(ROUND_HALF_UP, _EXACT))
    return scaled if abs(scaled) < _LIMIT else INVALID


def parse(*texts: str) -> list[int]:
    return nanoseconds([text.encode() for text in texts], len(texts)).tolist()


@given(st.lists(numbers() | garbage | stamps, max_size=12))
def test_mixed_forms(texts: list[str]) -> None:
    assert parse(*texts) == [expected(text) for text in texts]


@given(st.lists(stamps, min_size=1, max_size=12))
def test_stamps_of_one_form(texts: list[str]) -> None:
    """The form of every current trace, which has a separate code path."""
    assert parse(*texts) == [int(text.replace(".", "")) for text in texts]


@given(st.integers(-_LIMIT + 1, _LIMIT - 1))
def test_every_nanosecond_is_hit(exact: int) -> None:
    text = str(Decimal(exact).scaleb(-3))
    assert parse(text) == [exact]
    assert parse(text, "1", f'"{text}"') == [exact, 1000, exact]


@given(numbers() | garbage)
def test_neighbours_do_not_matter(text: str) -> None:
    for neighbours in ([], ["1712195495519695.800"], ["1", "-2.5", "nonsense"]):
        assert parse(text, *neighbours)[0] == parse(text)[0]
        assert parse(*neighbours, text)[-1] == parse(text)[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1712195495519695.800", 1_712_195_495_519_695_800),
        ("12", 12_000),
        ("-3.5", -3_500),
        ("0.0004", 0),
        ("0.0005", 1),
        ("0.0015", 2),
        ("0.0025", 3),
        ("-0.0005", -1),
        ("5e-4", 1),
        ("25e-4", 3),
        ('"0.0025"', 3),
        ("3999999999999999.999", 3_999_999_999_999_999_999),
        ("4000000000000000.001", 4_000_000_000_000_000_001),
        ("4611686018427387.903", _LIMIT - 1),
        ("4611686018427387.904", INVALID),
        ("18446744073709551616", INVALID),
        ("1e30", INVALID),
        ("1e999999", INVALID),
        ("-1e999999", INVALID),
        ("1e99999999999999999999", INVALID),
        ("1e-999999", 0),
        ("0." + "0" * 80 + "1", 0),
        ("0" * 80 + "7", 7_000),
    ],
)
def test_edges(text: str, wanted: int) -> None:
    assert parse(text) == [wanted]
    assert parse("5", text, "1712195495519695.800") == [5_000, wanted, 1_712_195_495_519_695_800]


@pytest.mark.parametrize("odd", ["[1,2]", '"1,234.5"', '{"a":1,"b":2}', ",", ",,"])
def test_a_comma_in_one_text_costs_that_text_only(odd: str) -> None:
    assert parse("5", odd, "7.25") == [5_000, INVALID, 7_250]


def test_raw_json_and_buffers_are_taken() -> None:
    texts = [Raw(b"12.5"), memoryview(b"7"), bytearray(b"-1")]
    assert nanoseconds(texts, 3).tolist() == [12_500, 7_000, -1_000]  # type: ignore[arg-type]


def test_nothing() -> None:
    assert nanoseconds([], 0).tolist() == []
