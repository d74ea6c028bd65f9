"""A table of patterns of which the first that matches decides, at the price of the few that can.

A trace may have a name of its own for every kernel, so a name must not cost an expression for every line of a table.
Every alternative of a pattern has a word that it cannot match without; looking for a word is a hundred times cheaper
than for an expression, so only alternatives whose word is in the name are tried, and most are just a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import compress, pairwise
from typing import Generic, TypeVar

T = TypeVar("T")

_PLAIN = re.compile(r"[a-z0-9_:]")
_OPTIONAL = frozenset("?*{")
"""What follows a character that need not be there."""


class FirstMatch(Generic[T]):
    """Patterns that ignore case, each with what a match means."""

    def __init__(self, table: Iterable[tuple[str, T]]) -> None:
        self._table = tuple(table)
        self._words: list[str] = []
        self._alternatives: list[tuple[re.Pattern[str] | None, T]] = []
        for pattern, meaning in self._table:
            for alternative in alternatives(pattern):
                word = required_word(alternative)
                is_word = alternative.lower() == word
                self._words.append(word)
                self._alternatives.append((None if is_word else re.compile(alternative, re.IGNORECASE), meaning))

    @cached_property
    def patterns(self) -> list[tuple[re.Pattern[str], T]]:
        """The lines of the table as they stand."""
        return [(re.compile(pattern, re.IGNORECASE), meaning) for pattern, meaning in self._table]

    def find(self, text: str) -> T | None:
        """What the first pattern means that matches anywhere in the text; None where none does."""
        if not text.isascii():  # case is more than lower() there: the Kelvin sign matches a k
            return next((meaning for pattern, meaning in self.patterns if pattern.search(text)), None)
        for pattern, meaning in compress(self._alternatives, map(text.lower().__contains__, self._words)):
            if pattern is None or pattern.search(text):
                return meaning
        return None


def alternatives(pattern: str) -> list[str]:
    """What stands between the bars of a pattern that are in no group."""
    found = [""]
    for part, depth in _parts(pattern):
        if part == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += part
    return found


def required_word(alternative: str) -> str:
    """The longest lower-case text that every match contains, as far as it stands outside of groups and sets."""
    runs = [""]
    parts = [*_parts(alternative), ("", 0)]
    for (part, depth), (following, _) in pairwise(parts):
        if depth == 0 and _PLAIN.fullmatch(part.lower()) and following[:1] not in _OPTIONAL:
            runs[-1] += part.lower()
        else:
            runs.append("")
    return max(runs, key=len)


def _parts(pattern: str) -> Iterator[tuple[str, int]]:
    """Characters, escaped ones, sets in brackets and repetitions in braces, each with the groups it is in."""
    depth = position = 0
    while position < len(pattern):
        part = _part(pattern, position)
        position += len(part)
        depth -= part == ")"
        yield part, depth + (part == ")")
        depth += part == "("


def _part(pattern: str, position: int) -> str:
    if pattern[position] == "\\":
        return pattern[position : position + 2]
    closing = {"[": "]", "{": "}"}.get(pattern[position])
    return pattern[position : pattern.index(closing, position + 2) + 1] if closing else pattern[position]
