"""`traceanalyzer batch`: many traces, one report each, and an index over all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from traceanalyzer import config, output
from traceanalyzer.batching import Progress, ReportOptions, Request, default_formats, formats, pool
from traceanalyzer.cli import delivery, one_line, parameters
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.storage import local_path
from traceanalyzer.urls import is_url


@contextmanager
def showing(*, quiet: bool) -> Iterator[Progress]:
    """Show the progress on standard error while the block runs, in a form that fits the terminal."""
    if quiet:
        yield Progress()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        with _Bar() as bar:
            yield bar


class _Lines(Progress):
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


FAILED = 1
_INDEX = "index.html"


@click.command("batch")
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, shell_complete=parameters.files)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    metavar="DIR",
    shell_complete=parameters.folders,
    help="Folder of the reports, or its URL.",
)
@click.option(
    "--format",
    "forms",
    type=click.Choice(formats()),
    multiple=True,
    help=f"Format of the reports; repeat for several  [default: {', '.join(default_formats())}].",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of processes  [default: one per core, as memory allows].",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory for all processes together: 8G, 512M, 50%  [default: 80% of what is available].",
)
@click.option("--cluster", metavar="ADDRESS", help="Analyze on a Dask cluster: the address of its scheduler.")
@parameters.top("the format's own")
@parameters.lang
@click.option("--skip-warmup", type=click.IntRange(min=0), default=0, metavar="N", help="Leave the first N steps out.")
@parameters.choice_of_rules
@click.option(
    "--history",
    metavar="FILE",
    shell_complete=parameters.files,
    help="Add one row a run to a table (.parquet, .csv), and write a page of its trends.",
)
@click.option(
    "--recorded",
    metavar="TIME",
    help="When runs were recorded whose traces do not say it: 2026-11-23T08:00, in UTC unless it says otherwise.",
)
@click.option("--allow-failures", is_flag=True, help="Exit with 0 even if files could not be analyzed.")
@click.option("--open", "show", is_flag=True, help="Open the index in the browser.")
@parameters.force
@parameters.quiet
def command(
    *,
    inputs: tuple[str, ...],
    folder: str,
    forms: tuple[str, ...],
    jobs: int | None,
    memory: str | None,
    cluster: str | None,
    top: int | None,
    lang: str | None,
    skip_warmup: int,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    history: str | None,
    recorded: str | None,
    allow_failures: bool,
    show: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Report on many traces: one report each, an index that ranks the runs, and a summary as a table.

    An INPUT is a file, a folder (searched at any depth), a quoted pattern, a URL such as s3://bucket/run7/, or a
    saved report (report -o x.json).

    Traces (.json, .json.gz, .tmp), texts with profiler tables (.txt, .md, .log, .out) and compile logs of torch (.log)
    are recognized by their content; a compile log gets a report of its own.
    Saved reports are rendered again; those in a folder are used only if there is nothing else.

    To resume an interrupted batch, run the same command again: it analyzes only what is missing or has changed.

    \b
    Examples:
      traceanalyzer batch traces/ -o reports/
      traceanalyzer batch 'runs/**/rank0*.gz' -o reports/ --format html
      traceanalyzer batch s3://bucket/run7/ -o out/ --cluster tcp://scheduler:8786
      traceanalyzer batch nightly/ -o reports/ --history steps.parquet

    \b
    Exit codes:
      0    done
      1    done, but a file could not be analyzed (0 with --allow-failures)
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load().choosing(select, ignore)
    if history is not None:
        output.require_local(history, "--history")
    if show and is_url(folder):
        raise UsageError(f"--open needs reports on this machine, and {folder} is a URL")
    settled = tuple(form for form in settings.formats if form in formats())
    options = ReportOptions(
        formats=tuple(dict.fromkeys(forms)) or settled or default_formats(),
        top=top or settings.top,
        skip_warmup=skip_warmup,
        config=settings,
        language=delivery.chosen_language(lang, settings).code,
    )
    request = Request(
        inputs=inputs,
        output=folder,
        options=options,
        jobs=jobs,
        memory=memory,
        cluster=cluster,
        force=force,
        history=history,
        recorded_ns=_time(recorded),
    )
    if cluster is None:
        pool.context(options.formats)  # imports modules in another process, in parallel with this one
    from traceanalyzer.batching.run import run  # noqa: PLC0415 - takes half a second

    with showing(quiet=quiet) as progress:
        result = run(request, progress)
    counts = result.counts
    if not quiet:
        before = f" ({counts.recalled} of them before)" if counts.recalled else ""
        click.echo(f"{counts.done} analyzed{before}, {counts.failed} failed, {counts.left_out} left out", err=True)
        click.echo(f"Wrote {one_line(folder.rstrip('/'))}/: {', '.join(result.pages)}", err=True)
    if show:
        delivery.open_file(Path(local_path(folder)) / _INDEX)
    if counts.failed and not allow_failures:
        sys.exit(FAILED)


def _time(given: str | None) -> int | None:
    """A time in ns since 1970; UTC unless it names another offset."""
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise UsageError(f"--recorded {given}: is no time; write it as 2026-11-23T08:00") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()) * 10**9
