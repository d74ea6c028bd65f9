"""Pools of strings, and predicates about them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.trace.strings import Strings


class Asked:
    """A predicate that remembers the strings that it was called with."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> bool:
        self.texts.append(text)
        return "a" in text


def test_only_the_strings_of_the_column_are_asked() -> None:
    asked, pool = Asked(), Strings(f"name {i}" for i in range(100))
    assert pool.where(asked)[np.array([5, 3, 5], np.int32)].tolist() == [True, True, True]
    assert sorted(asked.texts) == ["name 3", "name 5"]


def test_a_string_is_asked_once_whoever_asks() -> None:
    asked, pool = Asked(), Strings(["a", "b", "c"])
    for column in ([0, 1], [1, 2], [0, 1, 2] * 100, [2]):
        pool.where(asked)[np.array(column)]
    assert sorted(asked.texts) == ["a", "b", "c"]


def test_an_empty_column_asks_nothing() -> None:
    asked = Asked()
    assert Strings(["a"]).where(asked)[np.zeros(0, np.int32)].tolist() == []
    assert Strings([]).where(asked)[np.zeros(0, np.int64)].tolist() == []
    assert not asked.texts


@given(
    st.lists(st.text("ab", max_size=3), min_size=1, unique=True).flatmap(
        lambda texts: st.tuples(st.just(texts), st.lists(st.lists(st.integers(0, len(texts) - 1)), max_size=4))
    )
)
def test_answers_are_those_of_the_predicate(drawn: tuple[list[str], list[list[int]]]) -> None:
    texts, columns = drawn
    asked = Asked()
    answers = Strings(texts).where(asked)
    for column in columns:
        assert answers[np.array(column, np.int64)].tolist() == ["a" in texts[code] for code in column]
    assert len(asked.texts) == len(set(asked.texts))
