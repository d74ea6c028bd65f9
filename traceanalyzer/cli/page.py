"""`--open`: the HTML page in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from traceanalyzer.cli import one_line
from traceanalyzer.cli.delivery import SCREEN, Target
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs import file_names

_FORM = "html"


def included(wanted: Sequence[Target], source: str, *, is_chosen: bool) -> list[Target]:
    """The targets, with a page if the user chose no files.

    Args:
        wanted: Where to write.
        source: What the report is about: a file, a folder or `-`.
        is_chosen: Whether the user has chosen where to write.

    Raises:
        UsageError: The user wants files, and none of them is a page.
    """
    if any(_is_page(target) for target in wanted):
        return list(wanted)
    if is_chosen or wanted[0].form not in ("terminal", _FORM):
        raise UsageError("--open shows the HTML report, and none is written; add -o report.html")
    return [Target(f"{_name(source)}.html", _FORM)]


def show(written: Sequence[Target]) -> None:
    """Open the first page of what was written."""
    open_file(next(Path(target.path) for target in written if _is_page(target)))


def open_file(page: Path) -> None:
    """Open a page; without a browser, print where the page is."""
    import webbrowser  # noqa: PLC0415 - only where a page is opened

    try:
        is_shown = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        is_shown = False
    if not is_shown:
        click.echo(f"No browser was found; open {one_line(str(page))} in one", err=True)


def _is_page(target: Target) -> bool:
    return target.form == _FORM and target.path != SCREEN


def _name(source: str) -> str:
    """File name of the page about an input: the input's name without the suffixes of traces and texts."""
    if source == SCREEN:
        return "report"
    name = Path(source).resolve().name
    if name.lower().endswith(".gz"):
        name = name[: -len(".gz")]
    for suffix in (*file_names.TRACE_SUFFIXES, *file_names.TEXT_SUFFIXES):
        name = name.removesuffix(suffix)
    return name or "report"
