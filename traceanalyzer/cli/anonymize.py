"""`traceanalyzer anonymize`: a trace without names that show whose it is."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer import output
from traceanalyzer.cli import one_line
from traceanalyzer.cli.parameters import files
from traceanalyzer.cli.progress import reading
from traceanalyzer.report.message import Text
from traceanalyzer.rewrite.anonymize import anonymize

_WROTE = Text(
    "anonymize-wrote-entries",
    "Wrote {path}: {written:count} entries. Look through it before you share it.",
    "An entry is an element of the file's event list; a report counts fewer: those that take part in its analyses.",
    one="Wrote {path}: {written:count} entry. Look through it before you share it.",
)


@click.command("anonymize")
@click.argument("trace", metavar="TRACE", shell_complete=files)
@click.option("-o", "--output", "target", required=True, metavar="FILE", help="The trace to write: .json or .json.gz.")
@click.option(
    "--key",
    metavar="TEXT",
    help="Make the same hashes in several files, such as the ranks of a run; keep it secret  [default: random].",
)
@click.option("--hash-kernels", is_flag=True, help="Also hash kernels that torch.compile named after operators.")
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
def command(*, trace: str, target: str, key: str | None, hash_kernels: bool, force: bool, quiet: bool) -> None:
    """Hash the names in a trace, so that it can be shared; - is standard input.

    Known names of PyTorch, its libraries, Python and runtime calls stay, as do times and shapes, so that reports say
    the same. Every other name becomes a hash: modules, files, functions, kernels, hosts, groups, annotations. Unknown
    metadata is dropped.

    \b
    Examples:
      traceanalyzer anonymize trace.json.gz -o shared.json.gz
      traceanalyzer anonymize r0.json -o s0.json.gz --key secret --hash-kernels

    \b
    Exit codes:
      0    done
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    output.require_local(target)
    with reading(trace, quiet=quiet) as progress:
        done = anonymize(trace, Path(target), key=key, hash_kernels=hash_kernels, force=force, progress=progress)
    if not quiet:
        click.echo(_WROTE(path=one_line(target), written=done.written).text, err=True)
