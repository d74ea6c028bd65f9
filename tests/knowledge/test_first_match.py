"""Tables of patterns find the same with and without the words that save most of the expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_examples import COMMUNICATION, MATRIX_UNITS, NOT_TOLD, PLAIN_ARITHMETIC

from traceanalyzer.knowledge import first_match, kernel_classes, kernel_names
from traceanalyzer.knowledge.first_match import FirstMatch, alternatives, required_word

TABLES = {
    "classes": kernel_classes._TABLE,
    "matrix units": kernel_names._TABLE,
    "architectures": kernel_names._ARCHITECTURES,
}
NAMES = [
    name
    for known in (MATRIX_UNITS, PLAIN_ARITHMETIC, NOT_TOLD, COMMUNICATION)
    for name in (known if isinstance(known, tuple) else [n for names in known.values() for n in names])
]
FOLDED = "\u212a\u017f\u0130"
"""The Kelvin sign, the long s and the dotted I match letters when case is ignored."""
PIECES = sorted({piece for name in NAMES for piece in re.findall(r"[A-Za-z]+|\d+|\W|_", name)} | set(FOLDED))


def plain(table: FirstMatch, text: str) -> object:
    return next((meaning for pattern, meaning in table.patterns if pattern.search(text)), None)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_words_change_nothing_for_known_names(table: FirstMatch) -> None:
    assert len(NAMES) > 100
    assert [table.find(name) for name in NAMES] == [plain(table, name) for name in NAMES]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_words_change_nothing_for_any_name(table: FirstMatch, name: str) -> None:
    assert table.find(name) == plain(table, name)
    assert table.find(name.swapcase()) == plain(table, name.swapcase())


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(st.data())
def test_what_a_pattern_matches_is_found(table: FirstMatch, data: st.DataObject) -> None:
    """Texts made from the patterns themselves reach lines that no known name reaches."""
    pattern, _ = data.draw(st.sampled_from(table.patterns))
    name = data.draw(st.from_regex(pattern))
    assert table.find(name) == plain(table, name)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("reduce", ["reduce"]),
        ("Reduce|arg(max|min)", ["reduce", "arg"]),
        ("splitK?reduce", ["reduce"]),
        ("a+bc", ["bc"]),
        ("abc*d", ["ab"]),
        ("ab{0,2}", ["a"]),
        (r"\bcub::", ["cub::"]),
        (r"x\d+yz", ["yz"]),
        ("(?<!fb)gemm", ["gemm"]),
        ("(nccl|rccl)", [""]),
        ("[a|b]cd", ["cd"]),
        ("[]|(]ab|c", ["ab", "c"]),
        (r"a\|bc", ["bc"]),
    ],
)
def test_required_words(pattern: str, words: list[str]) -> None:
    assert [required_word(each) for each in alternatives(pattern)] == words


def test_only_what_can_match_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a word of a pattern costs no expression, and compiles none."""
    table: FirstMatch[int] = FirstMatch([("gemm_(a|b)", 1), ("conv_(a|b)", 2), ("plain", 3)])
    tried = []

    def compiled(pattern: str) -> re.Pattern[str]:
        tried.append(pattern)
        return re.compile(pattern, re.IGNORECASE)

    monkeypatch.setattr(first_match, "_compiled", compiled)
    assert [table.find(name) for name in ("nothing", "PLAIN", "conv_b", "conv_c plain")] == [None, 3, 2, 3]
    assert tried == ["conv_(a|b)", "conv_(a|b)"]
