"""The interface that receives the progress of a batch, for the command line and tests."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives every event of a batch, always from the same thread."""

    def found(self, files: int) -> None:
        """Called when this many files have been checked."""

    def begin(self, files: int, size_bytes: int) -> None:
        """Called when the number and size of the files to analyze is known."""

    def read(self, size_bytes: int) -> None:
        """Called when this many more bytes have been read or skipped."""

    def end(self, name: str, failure: str | None) -> None:
        """Called when a file is done, or has failed for a reason."""

    def note(self, text: str) -> None:
        """Called with a line that the user should see."""


class Silent:
    """Ignores all events, for callers that do not follow the batch."""

    def found(self, files: int) -> None:
        """Ignore how many files were found."""

    def begin(self, files: int, size_bytes: int) -> None:
        """Ignore how many files wait."""

    def read(self, size_bytes: int) -> None:
        """Ignore how much was read."""

    def end(self, name: str, failure: str | None) -> None:
        """Ignore that a file has ended."""

    def note(self, text: str) -> None:
        """Ignore a line for the user."""
