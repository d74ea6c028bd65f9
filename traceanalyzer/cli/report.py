"""`traceanalyzer report`: one trace, one report."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from traceanalyzer import config, output, renderers
from traceanalyzer.analyzers.context import Context
from traceanalyzer.cli import one_line
from traceanalyzer.cli.progress import reading
from traceanalyzer.errors import OutputError, UsageError
from traceanalyzer.pipeline import StepChoice, analyze, load
from traceanalyzer.report.model import SEVERITIES, Report
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

TABLE = "table"
"""The format of .txt files: not a rendering of the report, but what torch would print of the trace."""

FOUND = 1
"""Exit code where a finding is as severe as `--fail-on` says."""

FORMATS = (*renderers.FORMATS, TABLE)

_RANGE = re.compile(r"(\d{0,18}):(\d{0,18})|(\d{1,18})")


class _Steps(click.ParamType[tuple[int | None, int | None]]):
    """`A:B`, `A:`, `:B` or `A`, both ends included."""

    name = "A:B"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is no range of steps; write A:B, A: or :B", param, ctx)
        first, last, single = (int(part) if part else None for part in match.groups())
        return (first, last) if single is None else (single, single)


@click.command("report")
@click.argument("trace", metavar="TRACE")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write the report to FILE; its suffix (.md, .json, .txt) is the format. Repeat for several; - is standard "
    "output.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Format of everything written; without it, the suffix says it."
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rows of each ranking  [default: 5, in Markdown 20].",
)
@click.option("--steps", type=_Steps(), help="Only the steps A to B, both included.")
@click.option("--skip-warmup", type=click.IntRange(min=0), default=0, metavar="N", help="Leave the first N steps out.")
@click.option("--select", multiple=True, metavar="RULE", help="Only this rule. Repeat for several.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Not this rule. Repeat for several.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES[::-1]),
    help="Exit with 1 if a finding is that severe or more.",
)
@click.option("--sort-by", metavar="KEY", help="In a table (.txt): the column to sort by, as in torch.")
@click.option("--row-limit", type=int, default=100, metavar="N", help="In a table: rows, -1 for all  [default: 100].")
@click.option("--group-by-input-shape", is_flag=True, help="In a table: one row per operator and input shapes.")
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
def command(
    *,
    trace: str,
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    sort_by: str | None,
    row_limit: int,
    group_by_input_shape: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Report on one trace, or on the tables of a text; - is standard input.

    A trace is what torch.profiler exports (.json, .json.gz); a text is anything that holds tables of
    key_averages().table(). The content decides.

    Without -o it prints the first screen: how long a step is, where it goes, how busy the GPU is, and the
    most expensive operators and kernels. A .txt is the table that key_averages().table() would print.

    \b
    Examples:
      traceanalyzer report trace.json.gz
      traceanalyzer report trace.json -o report.md -o report.json
      cat trace.json | traceanalyzer report - --format markdown -o -
      traceanalyzer report trace.json -o table.txt --sort-by cpu_time_total
      traceanalyzer report profiling.md

    \b
    Exit codes:
      0    done, repaired input included
      1    a finding as severe as --fail-on or more
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    targets = _targets(outputs, form)
    first, last = steps or (None, None)
    if TABLE in {name for _, name in targets} and (steps or skip_warmup):
        raise UsageError("a table is made of the whole trace; leave --steps and --skip-warmup out")
    settings = config.load().choosing(select, ignore)
    with reading(trace, quiet=quiet) as progress:
        loaded = load(trace, progress)
        report = analyze(loaded, StepChoice(first, last, skip_warmup), settings)

    def text(name: str) -> str:
        if name == TABLE:
            return _table(loaded, sort_by, row_limit, by_shape=group_by_input_shape)
        return renderers.render(report, name, top)

    for path, name in targets:
        if path != "-":
            output.write(Path(path), text(name), force=force)
        elif name == "terminal":
            _show(report, top)
        else:
            _print(text(name))
        if path != "-" and not quiet:
            click.echo(f"Wrote {one_line(path)}", err=True)
    if not outputs and form is None and not quiet:
        click.echo(f"\nNext: traceanalyzer report {one_line(shlex.quote(trace))} -o report.md", err=True)
    if fail_on is not None and any(SEVERITIES.index(f.severity) >= SEVERITIES.index(fail_on) for f in report.findings):
        sys.exit(FOUND)


def _targets(outputs: tuple[str, ...], form: str | None) -> list[tuple[str, str]]:
    """Where to write and in which format; the screen if nothing is said."""
    if not outputs:
        return [("-", form or "terminal")]
    if "-" in outputs and form is None:
        raise UsageError("-o - needs --format: standard output has no suffix")
    return [(path, form or (TABLE if path.lower().endswith(".txt") else renderers.format_of(path))) for path in outputs]


def _table(measured: Trace | TableDocument, sort_by: str | None, row_limit: int, *, by_shape: bool) -> str:
    """The table that torch would print."""
    from traceanalyzer.analyzers import key_averages  # noqa: PLC0415 - only for this format
    from traceanalyzer.renderers import table  # noqa: PLC0415

    if not isinstance(measured, Trace):
        raise UsageError("a table is made from a trace; this input holds tables already")
    return table.render(key_averages.analyze(Context(measured), by_shape), sort_by=sort_by, row_limit=row_limit)


def _show(report: Report, top: int | None) -> None:
    from traceanalyzer.renderers import terminal  # noqa: PLC0415 - rich is slow to import

    with _standard_output():
        terminal.show(report, sys.stdout, top=top)


def _print(text: str) -> None:
    """A document is UTF-8 whatever the console: it goes to a file or a program."""
    with _standard_output():
        if sys.stdout.isatty():
            sys.stdout.write(text)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))


@contextmanager
def _standard_output() -> Iterator[None]:
    """A full disk is one line; a closed pipe is nobody's fault and handled by `main`."""
    if sys.stdout is None:
        raise OutputError("standard output: is closed; name a file with -o")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from None
