"""`traceanalyzer report`: one trace, one report."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from traceanalyzer import output, renderers
from traceanalyzer.cli.progress import reading
from traceanalyzer.errors import OutputError, UsageError
from traceanalyzer.pipeline import StepChoice, analyze, load
from traceanalyzer.report.model import Report

_RANGE = re.compile(r"(\d*):(\d*)|(\d+)")


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
    help="Write the report to FILE; its suffix (.md, .json) is the format. Repeat for several; - is standard output.",
)
@click.option("--format", "form", type=click.Choice(list(renderers.FORMATS)), help="Format, if no suffix says it.")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rows of each ranking  [default: 5, in Markdown 20].",
)
@click.option("--steps", type=_Steps(), help="Only the steps A to B, both included.")
@click.option("--skip-warmup", type=click.IntRange(min=0), default=0, metavar="N", help="Leave the first N steps out.")
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
def command(
    trace: str,
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    force: bool,
    quiet: bool,
) -> None:
    r"""Report on one trace: a file of torch.profiler (.json, .json.gz), or - for standard input.

    Without -o it prints the first screen: how long a step is, where it goes, how busy the GPU is, and the
    most expensive operators and kernels.

    \b
    Examples:
      traceanalyzer report trace.json.gz
      traceanalyzer report trace.json -o report.md -o report.json
      cat trace.json | traceanalyzer report - --format markdown -o -

    \b
    Exit codes: 0 done (repaired input included), 2 unusable input or usage, 130 interrupted.
    """
    targets = _targets(outputs, form)
    first, last = steps or (None, None)
    with reading(trace, quiet=quiet) as progress:
        loaded = load(trace, progress)
        report = analyze(loaded, StepChoice(first, last, skip_warmup))
    for path, name in targets:
        _write(report, path, name, top, force=force)
        if path != "-" and not quiet:
            click.echo(f"Wrote {path}", err=True)
    if not outputs and form is None and not quiet:
        click.echo(f"\nNext: traceanalyzer report {trace} -o report.md", err=True)


def _targets(outputs: tuple[str, ...], form: str | None) -> list[tuple[str, str]]:
    """Where to write and in which format; the screen if nothing is said."""
    if not outputs:
        return [("-", form or "terminal")]
    if "-" in outputs and form is None:
        raise UsageError("-o - needs --format: standard output has no suffix")
    return [(path, form if path == "-" and form else form or renderers.format_of(path)) for path in outputs]


def _write(report: Report, path: str, name: str, top: int | None, *, force: bool) -> None:
    if path != "-":
        output.write(Path(path), renderers.render(report, name, top), force=force)
        return
    try:
        if name == "terminal":
            from traceanalyzer.renderers import terminal  # noqa: PLC0415 - rich is slow to import

            terminal.show(report, sys.stdout, top=top)
        else:
            sys.stdout.write(renderers.render(report, name, top))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from None
