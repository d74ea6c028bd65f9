"""`traceanalyzer render`: a saved report in another format or language, without its trace."""

from __future__ import annotations

import click
import msgspec

from traceanalyzer import config, renderers
from traceanalyzer.cli import delivery
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.source import open_source
from traceanalyzer.renderers import language
from traceanalyzer.report import stored

_LARGEST = 1 << 30
"""Bytes of a report that are read (own choice: reports are a thousandth of it)."""


@click.command("render")
@click.argument("report", metavar="REPORT")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write to FILE; its suffix is the format. Repeat for several; - is standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice((*renderers.FORMATS, *renderers.BINARY)),
    help="Format of everything written; without it, the suffix says it.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Rows of each ranking.")
@click.option("--lang", metavar="CODE", help="Language of what people read: en, ru, zh or auto  [default: en].")
@delivery.assets_options
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no hints.")
def command(
    *,
    report: str,
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    lang: str | None,
    assets: str | None,
    assets_format: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Show a saved report in another format or language; - is standard input.

    \b
    Examples:
      traceanalyzer report trace.json.gz -o report.json
      traceanalyzer render report.json -o report.html --lang zh

    \b
    Exit codes:
      0    done
      2    unusable input or usage
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    wanted = delivery.targets(outputs, form, settings.formats)
    charts = delivery.assets(assets, assets_format, wanted)
    spoken = language.of(lang or settings.language)
    saved = stored.decode(_read(report), report)
    way = delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet, assets=charts)
    try:
        way.deliver(saved, wanted, {})
    except msgspec.ValidationError as error:  # an analysis that is not as this program writes it
        raise UnusableInputError(f"{report}: was changed after it was written: {error}") from None


def _read(path: str) -> bytes:
    with open_source(path, lambda _: None) as source:
        data = source.peek(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnusableInputError(f"{path}: is larger than any report; name a file that report -o x.json wrote")
    return data
