"""The option --card of `report`, `render` and `diff`: a picture for links and chats."""

from __future__ import annotations

from pathlib import Path, PurePath

import click

from traceanalyzer import output
from traceanalyzer.cli import parameters
from traceanalyzer.cli.delivery import Delivery
from traceanalyzer.errors import UsageError
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report

_FORMS = (".svg", ".png")

option = click.option(
    "--card",
    "card_file",
    metavar="FILE.svg|png",
    shell_complete=parameters.files,
    help="Also draw a picture of 1200 x 630 pixels for a link, a chat or a slide.",
)


def check(file: str | None) -> None:
    """Refuse a card in a format that cards do not have, before anything is read.

    Raises:
        UsageError: It has.
    """
    if file is not None:
        output.require_local(file, "--card")
    if file is not None and PurePath(file).suffix.lower() not in _FORMS:
        raise UsageError(f"--card {file}: is neither .svg nor .png")


def draw(content: Report | Difference, file: str | None, way: Delivery) -> None:
    """Draw the card that the user asked for, if any."""
    if file is None:
        return
    from traceanalyzer.formats import card_files  # noqa: PLC0415 - jinja2 is slow to import

    path = Path(file)
    way.put_file(path, card_files.draw(content, path.suffix.lower().removeprefix("."), way.language))
