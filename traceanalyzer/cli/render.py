"""`traceanalyzer render`: a saved report in another format or language, without its trace."""

from __future__ import annotations

import click
import msgspec

from traceanalyzer import config, renderers
from traceanalyzer.cli import delivery, page, parameters
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.source import open_source
from traceanalyzer.report import stored

_LARGEST = 1 << 30
"""Bytes of a report that are read (own choice: reports are a thousandth of it)."""


@click.command("render")
@click.argument("report", metavar="REPORT", shell_complete=parameters.files)
@parameters.output("the report", renderers.suffixes())
@parameters.form(renderers.EVERY)
@parameters.top("5, in Markdown 20")
@parameters.lang
@delivery.assets_options
@parameters.show
@parameters.force
@parameters.quiet
def command(
    *,
    report: str,
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    lang: str | None,
    assets: str | None,
    assets_format: str | None,
    show: bool,
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
    if show:
        wanted = page.included(wanted, report, is_chosen=bool(outputs))
    charts = delivery.assets(assets, assets_format, wanted)
    spoken = delivery.spoken(lang, settings)
    saved = stored.decode(_read(report), report)
    way = delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet, assets=charts)
    try:
        way.deliver(saved, wanted, {})
    except msgspec.ValidationError as error:  # an analysis that is not as this program writes it
        raise UnusableInputError(f"{report}: was changed after it was written: {error}") from None
    if show:
        page.show(wanted)


def _read(path: str) -> bytes:
    with open_source(path, lambda _: None) as source:
        data = source.peek(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnusableInputError(f"{path}: is larger than any report; name a file that report -o x.json wrote")
    return data
