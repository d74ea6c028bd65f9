"""The lines of a document, cleaned on access and numbered as in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traceanalyzer.readers.key_averages.cleaning import clean, split_lines

REACH = 3
"""Most distance between two consecutive lines of a table, because copying may insert blank lines."""


class Lines:
    """A sequence of cleaned lines."""

    def __init__(self, raw: Sequence[str], numbers: Sequence[int] | None = None) -> None:
        self.raw = raw
        self._numbers = numbers or range(1, len(raw) + 1)

    @classmethod
    def of(cls, text: str) -> Lines:
        """The lines of a text."""
        return cls(split_lines(text))

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> str:
        return clean(self.raw[index])

    def replaced(self, texts: Mapping[int, Sequence[str]]) -> Lines:
        """The same lines, with others in the place of some, by index; these keep the number of the line."""
        parts = [(self.number(index), texts.get(index, (line,))) for index, line in enumerate(self.raw)]
        return Lines([text for _, lines in parts for text in lines], [number for number, lines in parts for _ in lines])

    def number(self, index: int) -> int:
        """1-based line number in the file."""
        return self._numbers[index]

    def filled(self, index: int, step: int = 1) -> int | None:
        """Index of the first line from `index` on that is not blank, after at most two blank lines, or None."""
        for i in range(index, index + step * REACH, step):
            if not 0 <= i < len(self.raw):
                return None
            if self[i].strip():
                return i
        return None
