"""`traceanalyzer report`: one trace, one report."""

from __future__ import annotations

import shlex

import click

from traceanalyzer import config, renderers
from traceanalyzer.analyzers.context import Context
from traceanalyzer.cli import delivery, one_line
from traceanalyzer.cli.parameters import Steps
from traceanalyzer.cli.progress import reading
from traceanalyzer.config import SEVERITIES
from traceanalyzer.errors import UsageError
from traceanalyzer.pipeline import StepChoice, analyze, load
from traceanalyzer.renderers import language
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

TABLE = "table"
"""The format of .txt files: not a rendering of the report, but what torch would print of the trace."""

FORMATS = (*renderers.FORMATS, *renderers.BINARY, TABLE)


@click.command("report")
@click.argument("trace", metavar="TRACE")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write the report to FILE; its suffix (.html, .md, .json, .xlsx, .txt) is the format. Repeat for several; - "
    "is standard output.",
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
@click.option("--lang", metavar="CODE", help="Language of what people read: en, ru, zh or auto  [default: en].")
@click.option("--steps", type=Steps(), help="Only the steps A to B, both included.")
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
@delivery.assets_options
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
def command(
    *,
    trace: str,
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    lang: str | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    sort_by: str | None,
    row_limit: int,
    group_by_input_shape: bool,
    assets: str | None,
    assets_format: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Report on one trace, or on the tables of a text; - is standard input.

    A trace is what torch.profiler exports (.json, .json.gz); a text is anything that holds tables of
    key_averages().table(). The content decides.

    Without -o it prints the first screen: what bounds the step, what to change and what that is worth, where the
    step goes, how busy the GPU is. A .txt is the table that key_averages().table() would print.

    \b
    Examples:
      traceanalyzer report trace.json.gz
      traceanalyzer report trace.json -o report.html
      traceanalyzer report trace.json -o report.md -o report.json --lang ru
      traceanalyzer report trace.json -o report.md --assets charts
      cat trace.json | traceanalyzer report - --format markdown -o -
      traceanalyzer report trace.json -o tables/ --format csv
      traceanalyzer report trace.json -o table.txt --sort-by cpu_time_total
      traceanalyzer report profiling.md

    \b
    Exit codes:
      0    done, repaired input included
      1    a finding as severe as --fail-on or more
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load().choosing(select, ignore)
    targets = delivery.targets(outputs, form, settings.formats, {".txt": TABLE})
    charts = delivery.assets(assets, assets_format, targets)
    spoken = language.of(lang or settings.language)
    first, last = steps or (None, None)
    if TABLE in {target.form for target in targets} and (steps or skip_warmup):
        raise UsageError("a table is made of the whole trace; leave --steps and --skip-warmup out")
    with reading(trace, quiet=quiet) as progress:
        loaded = load(trace, progress)
        report = analyze(loaded, StepChoice(first, last, skip_warmup), settings)

    def table() -> str:
        return _table(loaded, sort_by, row_limit, by_shape=group_by_input_shape)

    way = delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet, assets=charts)
    way.deliver(report, targets, {TABLE: table})
    if not outputs and form is None and not quiet:
        click.echo(f"\nNext: traceanalyzer report {one_line(shlex.quote(trace))} -o report.html", err=True)
    delivery.exit_if_found(report, fail_on or settings.fail_on)


def _table(measured: Trace | TableDocument, sort_by: str | None, row_limit: int, *, by_shape: bool) -> str:
    """The table that torch would print."""
    from traceanalyzer.analyzers import key_averages  # noqa: PLC0415 - only for this format
    from traceanalyzer.renderers import table  # noqa: PLC0415

    if not isinstance(measured, Trace):
        raise UsageError("a table is made from a trace; this input holds tables already")
    return table.render(key_averages.analyze(Context(measured), by_shape), sort_by=sort_by, row_limit=row_limit)
