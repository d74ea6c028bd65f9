"""`traceanalyzer batch`: many traces, one report each, and an index over all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from traceanalyzer import config
from traceanalyzer.batching import worker
from traceanalyzer.batching.request import ReportOptions, Request, default_formats, formats
from traceanalyzer.cli import delivery, one_line, page, parameters
from traceanalyzer.cli.batch_progress import showing
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.storage import is_url, local_path

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
    allow_failures: bool,
    show: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Report on many traces: one report each, an index that ranks the runs, and a summary as a table.

    An INPUT is a file, a folder (searched at any depth), a quoted pattern, a URL such as s3://bucket/run7/, or a
    saved report (report -o x.json).

    Traces (.json, .json.gz, .tmp) and texts with profiler tables (.txt, .md, .log) are recognized by their content.
    Saved reports are rendered again; those in a folder are used only if there is nothing else.

    To resume an interrupted batch, run the same command again: it analyzes only what is missing or has changed.

    \b
    Examples:
      traceanalyzer batch traces/ -o reports/
      traceanalyzer batch 'runs/**/rank0*.gz' -o reports/ --format html
      traceanalyzer batch s3://bucket/run7/ -o out/ --cluster tcp://scheduler:8786

    \b
    Exit codes:
      0    done
      1    done, but a file could not be analyzed (0 with --allow-failures)
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load().choosing(select, ignore)
    if show and is_url(folder):
        raise UsageError(f"--open needs reports on this machine, and {folder} is a URL")
    settled = tuple(form for form in settings.formats if form in formats())
    options = ReportOptions(
        formats=tuple(dict.fromkeys(forms)) or settled or default_formats(),
        top=top or settings.top,
        skip_warmup=skip_warmup,
        config=settings,
        language=delivery.spoken(lang, settings).code,
    )
    request = Request(
        inputs=inputs, output=folder, options=options, jobs=jobs, memory=memory, cluster=cluster, force=force
    )
    if cluster is None:
        worker.context(options.formats)  # imports modules in another process, in parallel with this one
    from traceanalyzer.batching.run import run  # noqa: PLC0415 - takes half a second

    with showing(quiet=quiet) as progress:
        result = run(request, progress)
    counts = result.counts
    if not quiet:
        before = f" ({counts.recalled} of them before)" if counts.recalled else ""
        click.echo(f"{counts.done} analyzed{before}, {counts.failed} failed, {counts.left_out} left out", err=True)
        click.echo(f"Wrote {one_line(folder.rstrip('/'))}/: {', '.join(result.pages)}", err=True)
    if show:
        page.open_file(Path(local_path(folder)) / _INDEX)
    if counts.failed and not allow_failures:
        sys.exit(FAILED)
