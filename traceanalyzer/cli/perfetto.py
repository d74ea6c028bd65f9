"""The option --perfetto of `report`: the typical step as a trace, with what the report found as tracks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from traceanalyzer import output
from traceanalyzer.cli import delivery, one_line, parameters
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.language import Language
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace

option = click.option(
    "--perfetto",
    "perfetto_folder",
    metavar="DIR",
    shell_complete=parameters.folders,
    help="Also write to DIR the typical step as a trace for ui.perfetto.dev, with findings, critical path, causes of "
    "idle time and phases as tracks.",
)


def check(folder: str | None) -> None:
    """Refuse a folder that is a URL, before anything is read.

    Raises:
        OutputError: It is.
    """
    if folder is not None:
        output.require_local(folder, "--perfetto")


def write(
    report: Report, trace: Trace, file: str, folder: Path, language: Language, *, force: bool, quiet: bool
) -> None:
    """Write the step that the page of a report shows, with its tracks, as `DIR/<name>.perfetto.json.gz`.

    Args:
        report: The report on the trace.
        trace: The trace.
        file: Where the trace is; it is read again.
        folder: Where to write; it is made if it does not exist.
        language: Language of the names of the tracks.
        force: Overwrite files that this program did not write.
        quiet: Do not print the name of the file.

    Raises:
        UsageError: The trace has no step, or is standard input.
        OutputError: It cannot be written, or another program wrote it.
    """
    from traceanalyzer.formats import perfetto  # noqa: PLC0415 - few reports are written so
    from traceanalyzer.rewrite.trim import trim  # noqa: PLC0415 - as above

    times = perfetto.range_of(report)
    if times is None:
        raise UsageError(f"{file}: has no step that could be written for Perfetto")
    delivery.make_folder(folder)
    stem = Path(trace.info.name).name.removesuffix(".gz").removesuffix(".json")
    target = folder / f"{stem}.perfetto.json.gz"

    def tracks() -> Iterator[msgspec.Raw]:
        for event in perfetto.events(report, trace.info.origin_ns, language):
            yield msgspec.Raw(msgspec.json.encode(event))

    trim(file, target, time_ns=times, added=tracks(), force=force)
    if not quiet:
        click.echo(f"Wrote {one_line(str(target))}", err=True)
