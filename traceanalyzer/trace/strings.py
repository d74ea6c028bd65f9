"""Dictionary-encoded strings: columns hold codes, and a pool holds each distinct string once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Generic, TypeVar

import numpy as np

from traceanalyzer.trace.table import I32, Bool

K = TypeVar("K")


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

    def codes(self, values: Iterable[K], length: int) -> I32:
        """Codes of so many values, as a column."""
        return np.fromiter(map(self.encode, values), np.int32, length)

    def values(self) -> list[K]:
        """All values by code."""
        return list(self._codes)


class Strings(Sequence[str]):
    """An immutable list of strings that knows the code of each."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._index: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, code):  # type: ignore[no-untyped-def]  # Sequence overloads add nothing here
        return self._texts[code]

    def code(self, text: str) -> int:
        """Code of a string, or -1 (which no column of names holds)."""
        if self._index is None:
            self._index = {t: i for i, t in enumerate(self._texts)}
        return self._index.get(text, -1)

    def where(self, predicate: Callable[[str], bool]) -> Bool:
        """A mask over the codes: index it with a column to test every row at the price of the pool."""
        return np.fromiter(map(predicate, self._texts), np.bool_, len(self._texts))
