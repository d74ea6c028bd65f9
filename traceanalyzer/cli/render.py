"""`traceanalyzer render`: a saved report or difference in another format or language, without its trace."""

from __future__ import annotations

import click

from traceanalyzer import config, formats
from traceanalyzer.cli import card, delivery, parameters
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.difference import answer
from traceanalyzer.inputs import opening, saved_reports
from traceanalyzer.report.difference import Difference


@click.command("render")
@click.argument("report", metavar="REPORT", shell_complete=parameters.files)
@parameters.output("the report", formats.suffixes())
@parameters.form(formats.EVERY)
@parameters.top("5, in Markdown 20")
@parameters.lang
@delivery.assets_options
@card.option
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
    assets_url: str | None,
    card_file: str | None,
    show: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Show a saved report or difference in another format or language; - is standard input.

    REPORT is a file or a URL such as s3://bucket/report.json.

    \b
    Examples:
      traceanalyzer report trace.json.gz -o report.json
      traceanalyzer render report.json -o report.html --lang zh
      traceanalyzer render diff.json -o diff.html

    \b
    Exit codes:
      0    done
      2    unusable input or usage
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    wanted = delivery.targets(outputs, form, settings.formats)
    if show:
        wanted = delivery.with_page(wanted, report, is_chosen=bool(outputs))
    charts = delivery.assets(assets, assets_format, assets_url, wanted)
    card.check(card_file)
    spoken = delivery.chosen_language(lang, settings)
    with opening.open_source(report) as source:
        saved = saved_reports.read(source, report)
    if isinstance(saved, Difference):
        delivery.require_formats_of_differences(wanted)
        if charts is not None:
            raise UsageError(f"{report}: is a saved difference, which has no charts; leave --assets out")
        delivery.deliver_answer(answer(saved, spoken), wanted, top or settings.top, force=force, quiet=quiet)
        card.draw(saved, card_file, delivery.Delivery(spoken, force=force, quiet=quiet))
        if show:
            delivery.open_page_of(wanted)
        return
    way = delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet, assets=charts)
    way.deliver(saved, wanted, {})
    card.draw(saved, card_file, way)
    if show:
        delivery.open_page_of(wanted)
