"""Dictionary-encoded strings: columns contain codes, and a pool contains each distinct string once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Generic, TypeVar

import numpy as np

from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I32, I64, Bool

K = TypeVar("K")

_LONG = 100
"""In a column with so many rows for each string of the pool, to find out which occur takes longer than to ask all."""
_SHORT = 32
"""For fewer strings, the predicate is evaluated for all at once."""
_COMPARED = 4
"""To look for so few strings in a column is faster than to look up all its rows (measured)."""


class StringPool(Generic[K]):
    """Gives every distinct value a code, in the order of first appearance."""

    def __init__(self, *first: K) -> None:
        self._codes: defaultdict[K, int] = defaultdict(count().__next__)
        for value in first:
            self.encode(value)

    @property
    def encode(self) -> Callable[[K], int]:
        """Code of a value; runs at C speed under `map`, which is where readers spend their time."""
        return self._codes.__getitem__

    def __len__(self) -> int:
        return len(self._codes)

    def codes(self, values: Iterable[K], length: int) -> I32:
        """Codes of this many values, as a column."""
        return np.fromiter(map(self.encode, values), np.int32, length)

    def values(self) -> list[K]:
        """All values by code."""
        return list(self._codes)


class Strings(Sequence[str]):
    """An immutable list of strings with the code of each."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._index: dict[str, int] | None = None
        self._answers: dict[Callable[[str], bool], Answers] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, code):  # type: ignore[no-untyped-def]  # Sequence overloads add nothing here
        return self._texts[code]

    def code(self, text: str) -> int:
        """Code of a string, or -1 (which no column of names holds)."""
        if self._index is None:
            self._index = {t: i for i, t in enumerate(self._texts)}
        return self._index.get(text, -1)

    def where(self, predicate: Callable[[str], bool]) -> Answers:
        """The strings for which a predicate is true: index it with a column to get a mask of it.

        The predicate is evaluated once per string, however many columns contain the string.
        """
        if predicate not in self._answers:
            self._answers[predicate] = Answers(self._texts, predicate)
        return self._answers[predicate]


class Answers:
    """Values of a predicate for the strings of a pool, evaluated only for the requested strings.

    A trace may have a distinct name for every event, and a predicate about host operators must not be evaluated for all
    names of kernels.
    """

    def __init__(self, texts: tuple[str, ...], predicate: Callable[[str], bool]) -> None:
        self._texts = texts
        self._predicate = predicate
        self._known = np.zeros(len(texts), np.bool_)
        self._answers = np.zeros(len(texts), np.bool_)
        self._complete = False

    def __getitem__(self, codes: I32 | I64) -> Bool:
        """The answer for each row of a column of codes."""
        if not self._complete and len(codes):
            self._ask(codes)
        true = np.flatnonzero(self._answers)
        if len(true) > _COMPARED:
            return self._answers.take(codes)
        found = np.zeros(len(codes), np.bool_)
        for code in true.tolist():
            found |= codes == code
        return found

    def _ask(self, codes: I32 | I64) -> None:
        if (
            len(codes) > _LONG * len(self._texts) or len(self._texts) < _SHORT
        ):  # evaluating all is cheaper than finding out which occur
            new, self._complete = np.flatnonzero(~self._known), True
        else:
            new = distinct(codes[~self._known[codes]])
        texts = map(self._texts.__getitem__, new.tolist())
        self._answers[new] = np.fromiter(map(self._predicate, texts), np.bool_, len(new))
        self._known[new] = True
