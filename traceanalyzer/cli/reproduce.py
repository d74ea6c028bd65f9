"""`traceanalyzer reproduce`: a program that repeats a recorded operator with torch alone."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer import config, output
from traceanalyzer.cli import delivery, parameters
from traceanalyzer.cli.export import traced
from traceanalyzer.cli.one_input import FolderInput, input_of
from traceanalyzer.cli.progress import reading
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs import opening
from traceanalyzer.report.difference import Difference
from traceanalyzer.reproduction import reproduce


@click.command("reproduce")
@click.argument("given", metavar="TRACE", shell_complete=parameters.files)
@click.option(
    "--op",
    "operator",
    metavar="OPERATOR",
    help="Operator of aten, with the shapes of its inputs if they matter: aten::mm[[64,9],[9,8]]. "
    "Several that follow each other are joined with ->.",
)
@click.option("--finding", metavar="ID", help="What this finding is about: the id of its rule, or RULE#2.")
@click.option("-o", "--output", "path", metavar="FILE", shell_complete=parameters.files, help="Write to FILE.")
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    given: str,
    operator: str | None,
    finding: str | None,
    path: str | None,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    """Write a program that repeats a recorded operator with torch alone.

    TRACE is a file, or a folder, a quoted pattern or a URL that leads to one trace, recorded with record_shapes=True.

    The program, of at most eighty lines, calls the operator with the recorded shapes, types, strides and values,
    warmed up, and prints the recorded time, the roof of the device, the measured time and that of the variants that
    advice names: contiguous, channels_last, bfloat16, padded, compiled, fused. It says what was not recorded.

    \b
    Examples:
      traceanalyzer reproduce trace.json.gz --op aten::addmm
      traceanalyzer reproduce trace.json.gz --op "aten::mm[[64,1000],[1000,128]]"
      traceanalyzer reproduce trace.json.gz --op "aten::convolution -> aten::relu"
      traceanalyzer reproduce trace.json.gz --finding mixed-precision-unused

    \b
    Exit codes:
      0    done
      2    unusable input or usage; no such operator or finding; no shapes
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    if (operator is None) == (finding is None):
        raise UsageError("name an operator (--op aten::mm) or a finding (--finding ID), and only one of them")
    if path is not None:
        output.require_local(path)
    source = FolderInput((given,)) if opening.is_one_file(given) else input_of(given, "reproduce")
    if source.is_run:
        raise UsageError(f"{given}: contains several ranks, but one trace is reproduced; name the file of one rank")
    file = source.inputs[0]
    with reading(file, quiet=quiet) as progress:
        content = opening.read(file, progress, jobs)
    if isinstance(content, Difference):
        raise UsageError(f"{file}: is a saved difference, but a program is made of a trace")
    text = reproduce(traced(content, given, "a program"), operator, finding, config=config.load(), jobs=jobs)
    if path is None or path == delivery.SCREEN:
        delivery.put(text, "python")
    else:
        settings = delivery.chosen_language(None, config.load())
        delivery.Delivery(settings, force=force, quiet=quiet).put_file(Path(path), text)
