"""`traceanalyzer query`: a question in SQL to one trace, or to the traces of all ranks of a run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from traceanalyzer import config, output
from traceanalyzer.cli import delivery, one_line, parameters
from traceanalyzer.cli.export import traced
from traceanalyzer.cli.one_input import FolderInput, input_of
from traceanalyzer.cli.progress import reading
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import format_of, suffixes
from traceanalyzer.inputs import opening, sniffing
from traceanalyzer.inputs.sniffing import FileKind
from traceanalyzer.querying import QueryLimits, sql, tables, to_parquet
from traceanalyzer.querying.database import import_duckdb
from traceanalyzer.report.difference import Difference
from traceanalyzer.trace.model import Trace

_PARQUET = "parquet"
_FORMATS = {"terminal": (".txt",), "csv": (".csv",), "json": (".json",), _PARQUET: (".parquet",)}
"""Formats of an answer, and their suffixes."""
_MODULE = "a query"


@click.command("query")
@click.argument("given", metavar="TRACE", shell_complete=parameters.files)
@click.argument("query", metavar="[SQL]", required=False)
@parameters.output("the answer", suffixes(_FORMATS))
@parameters.form(_FORMATS)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=QueryLimits.rows,
    show_default=True,
    metavar="N",
    help="An answer with more rows is an error.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0.001),
    default=QueryLimits.seconds,
    show_default=True,
    metavar="S",
    help="A query that takes longer is an error.",
)
@click.option(
    "--max-memory-mb",
    type=click.IntRange(min=16),
    default=QueryLimits.memory_mb,
    show_default=True,
    metavar="MB",
    help="A query that needs more memory is an error.",
)
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    given: str,
    query: str | None,
    outputs: tuple[str, ...],
    form: str | None,
    max_rows: int,
    max_seconds: float,
    max_memory_mb: int,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    """Ask a trace a question in SQL; - is standard input.

    TRACE is a file, or a folder, a quoted pattern or a URL that leads to one trace or to the ranks of one run.
    SQL is one SELECT of DuckDB's dialect; without it, the tables and their columns are listed. It reads the tables
    of the trace only: no files, no network. It needs an extra: pip install 'torch-traceanalyzer[sql]'.

    \b
    Examples:
      traceanalyzer query trace.json.gz
      traceanalyzer query trace.json.gz "select name, dur_ns from kernels limit 5"
      traceanalyzer query trace.json.gz "select * from gaps" -o gaps.csv
      traceanalyzer query traces/ "select rank, name from kernels" --format json

    \b
    Exit codes:
      0    done, also without any row
      2    unusable input or usage; not one SELECT, or beyond a limit
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    targets = _targets(outputs, form)
    if query is None:
        delivery.put(tables.listed(), "terminal")
        return
    import_duckdb()  # said before a large trace is read
    limits = QueryLimits(max_rows, max_seconds, max_memory_mb)
    traces = _read(given, jobs, quiet=quiet)
    settings = config.load()
    texts = [target for target in targets if target.form != _PARQUET]
    way = delivery.Delivery(delivery.chosen_language(None, settings), force=force, quiet=quiet)
    if texts:
        from traceanalyzer.formats import query_rows  # noqa: PLC0415 - Parquet needs none

        answer = sql(traces, query, limits=limits, config=settings, jobs=jobs)
        for target in texts:
            text = query_rows.TEXTS[target.form](answer)
            if target.path == delivery.SCREEN:
                delivery.put(text, target.form)
            else:
                way.put_file(Path(target.path), text)
    for target in targets:
        if target.form == _PARQUET:
            with output.writing(Path(target.path), force=force) as file, TemporaryDirectory() as folder:
                written = Path(folder) / "answer.parquet"
                to_parquet(traces, query, written, limits=limits, config=settings, jobs=jobs)
                file.write(written.read_bytes())
            if not quiet:
                click.echo(f"Wrote {one_line(target.path)}", err=True)


def _targets(outputs: tuple[str, ...], form: str | None) -> list[delivery.Target]:
    """Where to write and in which format; the screen without options.

    Raises:
        UsageError: A suffix says no format, or Parquet is to be printed.
    """
    for path in outputs:
        output.require_local(path)
    if "-" in outputs and form is None:
        raise UsageError("-o - needs --format: standard output has no suffix")
    wanted = [delivery.Target(path, form or format_of(path, _FORMATS)) for path in outputs]
    wanted = wanted or [delivery.Target(delivery.SCREEN, form or "terminal")]
    if any(target.path == delivery.SCREEN and target.form == _PARQUET for target in wanted):
        raise UsageError("--format parquet cannot be printed; name a file with -o")
    return wanted


def _read(given: str, jobs: int, *, quiet: bool) -> list[Trace]:
    """The trace, or those of the ranks of a run in their order.

    Raises:
        UsageError: It is no trace, or several runs.
    """
    source = FolderInput((given,)) if opening.is_one_file(given) else input_of(given, "query")
    files = list(source.inputs)
    if source.is_run:
        seen = [sniffing.sniff(file) for file in opening.files(source.inputs)]
        files = [file.found.location for file in seen if file.is_a(FileKind.TRACE)]
        if not files:
            raise UsageError(f"{given}: contains no trace, but a query is answered from traces")
    traces = []
    for file in files:
        with reading(file, quiet=quiet) as progress:
            content = opening.read(file, progress, jobs)
        if isinstance(content, Difference):
            raise UsageError(f"{file}: is a saved difference, but {_MODULE} is answered from a trace")
        traces.append(traced(content, file, _MODULE))
    return sorted(traces, key=lambda trace: -1 if trace.info.rank is None else trace.info.rank)
