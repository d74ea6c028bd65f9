"""A table of patterns in which the first match decides. Only patterns that can match are tried.

A trace may have a distinct name for every kernel, so trying every regular expression on every name would be slow.
Every alternative of a pattern contains a word that each of its matches contains. A substring search is a hundred times
faster than a regular expression, so only alternatives whose word is in the name are tried; most are a single word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from itertools import compress, pairwise
from typing import Generic, TypeVar

T = TypeVar("T")

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_:")
_PART = re.compile(r"\\.|\[.[^\]]*+(?:\]|\Z)|\{[^}]*+(?:\}|\Z)|.", re.DOTALL)
"""A bracket that follows the opening one at once is in the set. What is not closed ends with the pattern."""
_OPTIONAL = frozenset("?*{")
"""Quantifiers that make the previous character optional."""
_GROUPING = frozenset("\\[{()")
"""Characters of what a bar does not end."""


class FirstMatch(Generic[T]):
    """Case-insensitive patterns, each with a value."""

    def __init__(self, table: Iterable[tuple[str, T]]) -> None:
        self._table = tuple(table)

    @cached_property
    def _lines(self) -> tuple[list[str], list[tuple[str | None, T]]]:
        """A word for each alternative, and the alternative itself with what it means; None for those that are the word.

        Most are never tried, so none is compiled before it is.
        """
        words: list[str] = []
        lines: list[tuple[str | None, T]] = []
        for pattern, meaning in self._table:
            for alternative in alternatives(pattern):
                word = required_word(alternative)
                words.append(word)
                lines.append((None if alternative.lower() == word else alternative, meaning))
        return words, lines

    @cached_property
    def patterns(self) -> list[tuple[re.Pattern[str], T]]:
        """The compiled patterns and values in table order."""
        return [(re.compile(pattern, re.IGNORECASE), meaning) for pattern, meaning in self._table]

    def find(self, text: str) -> T | None:
        """The value of the first pattern that matches anywhere in the text; None without a match."""
        if not text.isascii():  # ignoring case is more than lower(): the Kelvin sign matches a k
            return next((meaning for pattern, meaning in self.patterns if pattern.search(text)), None)
        words, lines = self._lines
        for alternative, meaning in compress(lines, map(text.lower().__contains__, words)):
            if alternative is None or _compiled(alternative).search(text):
                return meaning
        return None


@cache
def _compiled(alternative: str) -> re.Pattern[str]:
    return re.compile(alternative, re.IGNORECASE)


class AnyOf:
    """Regular expressions as one, which is compiled when it is first tried, as most of a long table never are."""

    def __init__(self, *patterns: str, flags: int = re.ASCII) -> None:
        self.pattern, self._flags = "|".join(patterns), flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression that matches where one of them does."""
        return re.compile(self.pattern, self._flags)


def alternatives(pattern: str) -> list[str]:
    """Split a pattern at the bars that are outside groups."""
    if _GROUPING.isdisjoint(pattern):
        return pattern.split("|")
    texts = [""]
    for part, depth in _parts(pattern):
        if part == "|" and depth == 0:
            texts.append("")
        else:
            texts[-1] += part
    return texts


def required_word(alternative: str) -> str:
    """The longest lower-case text that every match contains; groups and character sets are not searched."""
    if _PLAIN.issuperset(alternative.lower()):
        return alternative.lower()
    runs = [""]
    parts = [*_parts(alternative), ("", 0)]
    for (part, depth), (following, _) in pairwise(parts):
        if depth == 0 and part.lower() in _PLAIN and following[:1] not in _OPTIONAL:
            runs[-1] += part.lower()
        else:
            runs.append("")
    return max(runs, key=len)


def _parts(pattern: str) -> Iterator[tuple[str, int]]:
    """Tokens of a pattern (characters, escapes, sets in brackets, repetitions in braces), each with its group depth."""
    depth = 0
    for part in _PART.findall(pattern):
        depth -= part == ")"
        yield part, depth + (part == ")")
        depth += part == "("


def finds(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    """A function that says whether a name has a match of a regular expression anywhere; compiled when it first does."""
    compiled = cache(lambda: re.compile(pattern, flags).search)
    return lambda name: compiled()(name) is not None
