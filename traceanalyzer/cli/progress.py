"""Progress on standard error, for files that take more than a second, and only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from traceanalyzer.cli import one_line

PATIENCE_S = 1.0
MANY_EVENTS = 40_000
"""Events whose analysis takes about two seconds."""


@contextmanager
def reading(path: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A function that takes the number of bytes after each read."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = _Bar(path)
    try:
        yield bar.advance
    finally:
        bar.close()


def analyzing(path: str, started: float, events: int, *, quiet: bool) -> None:
    """Say on a terminal that a file is analyzed, where that takes long.

    Args:
        path: The file.
        started: When reading it began, as `time.monotonic` tells: what took long to read takes longer to analyze.
        events: How many events it has; 0 if it is no trace.
        quiet: Whether nobody wants to know.
    """
    takes_long = events >= MANY_EVENTS or time.monotonic() - started > PATIENCE_S
    if takes_long and not quiet and sys.stderr.isatty():
        click.echo(f"Analyzing {one_line(Path(path).name)} ...", err=True)


@contextmanager
def reading_each(*, quiet: bool) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """For files that are read one after another: from the name of a file to what takes bytes; one bar at a time."""
    with ExitStack() as stack:

        def begin(path: str) -> Callable[[int], None]:
            stack.close()  # the file before has been read, and a terminal shows one bar
            return stack.enter_context(reading(path, quiet=quiet))

        yield begin


class _Bar:
    """A progress bar that appears only when there is something to wait for."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._started = time.monotonic()
        self._done = 0
        self._progress: object = None
        self._close: Callable[[], None] = lambda: None
        self._update: Callable[[int], None] | None = None

    def advance(self, count: int) -> None:
        self._done += count
        if self._update is not None:
            self._update(self._done)
        elif time.monotonic() - self._started > PATIENCE_S:
            self._open()

    def close(self) -> None:
        self._close()

    def _open(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - rich is slow to import
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        file = Path(self._path)
        task = progress.add_task("reading", total=file.stat().st_size if file.is_file() else None)
        progress.start()
        self._close = progress.stop
        self._update = lambda done: progress.update(task, completed=done)
