"""Who wants to know how far a batch is: the command line shows it, tests count it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told about every event, from one thread."""

    def found(self, files: int) -> None:
        """So many files have been looked at."""

    def begin(self, files: int, size_bytes: int) -> None:
        """So many files wait to be analyzed."""

    def read(self, size_bytes: int) -> None:
        """So many more bytes have been read, or will not be."""

    def end(self, name: str, failure: str | None) -> None:
        """A file has ended, perhaps with a failure."""

    def note(self, text: str) -> None:
        """Something that the user should know."""


class Silent:
    """Nobody wants to know."""

    def found(self, files: int) -> None:
        """See `Progress`."""

    def begin(self, files: int, size_bytes: int) -> None:
        """See `Progress`."""

    def read(self, size_bytes: int) -> None:
        """See `Progress`."""

    def end(self, name: str, failure: str | None) -> None:
        """See `Progress`."""

    def note(self, text: str) -> None:
        """See `Progress`."""
