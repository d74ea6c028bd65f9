"""`traceanalyzer render`: a saved report or difference in another format or language, without its trace."""

from __future__ import annotations

import click

from traceanalyzer import config, renderers
from traceanalyzer.cli import delivery, differences
from traceanalyzer.errors import UsageError
from traceanalyzer.readers.source import open_source
from traceanalyzer.renderers import language
from traceanalyzer.report import stored
from traceanalyzer.report.difference import Difference


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
    """Show a saved report or difference in another format or language; - is standard input.

    \b
    Examples:
      traceanalyzer report trace.json.gz -o report.json
      traceanalyzer render report.json -o report.html --lang zh
      traceanalyzer render diff.json -o diff.md

    \b
    Exit codes:
      0    done
      2    unusable input or usage
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    wanted = delivery.targets(outputs, form, settings.formats)
    charts = delivery.assets(assets, assets_format, wanted)
    spoken = language.of(lang or settings.language)
    with open_source(report, lambda _: None) as source:
        saved = stored.read(source, report)
    if isinstance(saved, Difference):
        differences.check(wanted)
        if charts is not None:
            raise UsageError(f"{report}: is a saved difference, which has no charts; leave --assets out")
        shown = differences.Delivery(spoken, top or settings.top, force=force, quiet=quiet)
        shown.deliver(saved, wanted)
        return
    way = delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet, assets=charts)
    way.deliver(saved, wanted, {})
