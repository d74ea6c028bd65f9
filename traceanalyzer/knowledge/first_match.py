"""A table of patterns of which the first that matches decides, at the price of the few that can.

A trace may have a name of its own for every kernel, so a name must not cost an expression for every line of a table.
Every alternative of a pattern has a word that it cannot match without; looking for a word is a hundred times cheaper
than for an expression, so only alternatives whose word is in the name are tried, and most are just a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import compress, pairwise
from typing import Generic, TypeVar

T = TypeVar("T")

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_:")
_PART = re.compile(r"\\.|\[.[^\]]*\]|\{[^}]*\}|.", re.DOTALL)
"""A bracket that follows the opening one at once is in the set."""
_OPTIONAL = frozenset("?*{")
"""What follows a character that need not be there."""


class FirstMatch(Generic[T]):
    """Patterns that ignore case, each with what a match means."""

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
        """The lines of the table as they stand."""
        return [(re.compile(pattern, re.IGNORECASE), meaning) for pattern, meaning in self._table]

    def find(self, text: str) -> T | None:
        """What the first pattern means that matches anywhere in the text; None where none does."""
        if not text.isascii():  # case is more than lower() there: the Kelvin sign matches a k
            return next((meaning for pattern, meaning in self.patterns if pattern.search(text)), None)
        words, lines = self._lines
        for alternative, meaning in compress(lines, map(text.lower().__contains__, words)):
            if alternative is None or _compiled(alternative).search(text):
                return meaning
        return None


@cache
def _compiled(alternative: str) -> re.Pattern[str]:
    return re.compile(alternative, re.IGNORECASE)


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
        if depth == 0 and part.lower() in _PLAIN and following[:1] not in _OPTIONAL:
            runs[-1] += part.lower()
        else:
            runs.append("")
    return max(runs, key=len)


def _parts(pattern: str) -> Iterator[tuple[str, int]]:
    """Characters, escaped ones, sets in brackets and repetitions in braces, each with the groups it is in."""
    depth = 0
    for part in _PART.findall(pattern):
        depth -= part == ")"
        yield part, depth + (part == ")")
        depth += part == "("
