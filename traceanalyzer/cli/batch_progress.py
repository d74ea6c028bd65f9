"""How far a batch is, on standard error: a bar on a terminal, and one line for each file that fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from traceanalyzer.batching.progress import Progress, Silent
from traceanalyzer.cli import one_line


@contextmanager
def showing(*, quiet: bool) -> Iterator[Progress]:
    """Show the progress on standard error while the block runs, in a form that fits the terminal."""
    if quiet:
        yield Silent()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        with _Bar() as bar:
            yield bar


class _Lines(Silent):
    """Prints failures and notes only, for output that is not a terminal."""

    def end(self, name: str, failure: str | None) -> None:
        """One line for a failure."""
        if failure is not None:
            self.note(f"{name}: {failure}")

    def note(self, text: str) -> None:
        """Print one line for a note."""
        click.echo(one_line(text), err=True)


class _Bar(_Lines):
    """A progress bar with files, bytes, rate and remaining time."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - rich is slow to import
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            TextColumn("{task.fields[files]}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("looking", total=None, files="")
        self._total = self._ended = 0

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def found(self, files: int) -> None:
        """Show how many files have been examined."""
        self._progress.update(self._task, files=f"{files} files")

    def begin(self, files: int, size_bytes: int) -> None:
        """Set how much there is to do."""
        self._total = files
        self._progress.reset(self._task, total=size_bytes, description="analyzing", files=f"0/{files} files")

    def read(self, size_bytes: int) -> None:
        """Move the bar by this many bytes of some file."""
        self._progress.update(self._task, advance=size_bytes)

    def end(self, name: str, failure: str | None) -> None:
        """Count one more file, and print its failure if there is one."""
        self._ended += 1
        self._progress.update(self._task, files=f"{self._ended}/{self._total} files")
        super().end(name, failure)

    def note(self, text: str) -> None:
        """One line above the bar."""
        self._progress.console.print(one_line(text), markup=False, highlight=False)
