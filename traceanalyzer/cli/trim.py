"""`traceanalyzer trim`: cuts a trace to some steps or a time range."""

from __future__ import annotations

import re
from pathlib import Path

import click

from traceanalyzer import output
from traceanalyzer.cli import one_line
from traceanalyzer.cli.parameters import ParamType, StepRange, files
from traceanalyzer.cli.progress import reading
from traceanalyzer.errors import UsageError
from traceanalyzer.report.message import Text
from traceanalyzer.rewrite.trim import trim

_RANGE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)?:(\d{1,9}(?:\.\d{1,6})?)?")
_NS_PER_MS = 1_000_000
_WROTE = Text(
    "trim-wrote-entries",
    "Wrote {path}: {written:count} of {entries:count} entries",
    "An entry is an element of the file's event list; a report counts fewer: those that take part in its analyses.",
)


class _Time(ParamType[tuple[int | None, int | None]]):
    """`A:B` in milliseconds since the first event."""

    name = "A:B"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is not a time range; write A:B, A: or :B in milliseconds", param, ctx)
        start, end = (round(float(part) * _NS_PER_MS) if part else None for part in match.groups())
        return start, end


@click.command("trim")
@click.argument("trace", metavar="TRACE", shell_complete=files)
@click.option("-o", "--output", "target", required=True, metavar="FILE", help="The trace to write: .json or .json.gz.")
@click.option("--steps", type=StepRange(), help="Keep the steps A to B, both included (numbers as in ProfilerStep#N).")
@click.option("--time", "time_ns", type=_Time(), help="Keep A to B milliseconds after the first event.")
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
def command(
    *,
    trace: str,
    target: str,
    steps: tuple[int | None, int | None] | None,
    time_ns: tuple[int | None, int | None] | None,
    force: bool,
    quiet: bool,
) -> None:
    """Cut a trace to some steps or a time range; the result opens wherever the trace did.

    These are kept: events that start in the range, device work that was launched in it, calls that launched work that
    runs in it, names of processes and threads, and the metadata. A trace of any size works: it is copied event by
    event.

    \b
    Examples:
      traceanalyzer trim trace.json.gz -o steps.json.gz --steps 5:7
      traceanalyzer trim trace.json -o cut.json.gz --time 10:25.5

    \b
    Exit codes:
      0    done
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    if steps is not None and time_ns is not None:
        raise UsageError("--steps and --time both say what to keep; leave one of them out")
    if steps is None and time_ns is None:
        raise UsageError("name what to keep: add --steps A:B or --time A:B")
    output.require_local(target)
    with reading(trace, quiet=quiet) as progress:
        done = trim(trace, Path(target), steps=steps, time_ns=time_ns, force=force, progress=progress)
    if not quiet:
        click.echo(_WROTE(path=one_line(target), written=done.written, entries=done.entries).text, err=True)
