"""Formats of a report. A format has a name, file suffixes that select it, and a rendering function.

    terminal              one screen of text
    markdown              for comments in pull requests
    html                  pages that need no network
    json                  the stable format for other programs
    brief                 a report in 8,000 characters, for programs that read
    one_finding           one finding whole
    sarif                 findings beside the code in reviews
    spreadsheet           all tables, as CSV
    workbook              an Excel workbook for people
    torch_table           `key_averages().table()` as torch prints it
    flame_files           speedscope, collapsed stacks
    perfetto              what a report found, as tracks of a trace
    answers               formats of what commands answer besides reports
    what_if               predictions
    verification          what became of findings
    query_rows            answers to queries: a table, CSV, JSON
    difference            differences of two reports
    difference_sections   their sections and words
    step_difference       what they say of a step
    run_difference        differences of two runs of several ranks
    before_after          both sides of a difference as a picture
    cards                 words the findings
    prices                words what findings save
    card_files            a picture of a report for links and chats
    charts                charts as data
    report_charts         those of a report
    rank_charts           those of the ranks of a run
    hang_charts           who waits in which group of a run that hangs
    pictures              lays charts out, once for pages and files
    svg                   paints pictures for pages and files
    png                   paints pictures with matplotlib
    chart_files           charts as files
    language              translates texts, numbers and units
    code_comments         comments in the code of findings

What to show is decided in `sections`; here it is laid out and translated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Protocol, cast

from traceanalyzer.errors import UsageError
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.model import Report

if TYPE_CHECKING:
    from jinja2 import Environment

FORMATS = {
    "terminal": (),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm"),
    "brief": (".brief.json",),  # before .json, in which it ends
    "json": (".json",),
    "sarif": (".sarif",),
}
"""Text formats and their suffixes; each is a module of this package, imported on use."""

BINARY = {"csv": (), "xlsx": (".xlsx",)}
"""Formats other than a single text: a folder of files, and a workbook (`formats.spreadsheet`, `formats.workbook`)."""


FLAME_GRAPHS = {"speedscope": (".speedscope.json",), "collapsed": (".collapsed",)}
"""Formats of flame graphs (`formats.flame_files`)."""

EXPORTS = {"table": (".txt",), **FLAME_GRAPHS, "perfetto": ()}
"""Formats created from a trace instead of a report: torch's table, flame graphs, and a folder for Perfetto's trace."""

_PACKAGE = Path(__file__).resolve().parent.parent


class _Ranked(Protocol):
    def __call__(self, report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str: ...


EVERY: Mapping[str, Sequence[str]] = {**FORMATS, **BINARY}
"""All formats of a report, and their suffixes."""


SUFFIXES: Mapping[str, Sequence[str]] = {
    "terminal": (".txt",),
    "table": (".txt",),
    "markdown": (*FORMATS["markdown"], ".txt"),
    "html": FORMATS["html"],
    "brief": (".json",),
    "json": FORMATS["json"],
    "sarif": (*FORMATS["sarif"], ".json"),
    "csv": (),
    "xlsx": BINARY["xlsx"],
    "speedscope": (".json",),
    "collapsed": (".collapsed", ".txt"),
    "perfetto": (),
}
"""All formats, and the suffixes that a file of each may have."""


def suffixes(formats: Mapping[str, Sequence[str]] = EVERY) -> tuple[str, ...]:
    """The suffixes that select one of these formats."""
    return tuple(suffix for of_one in formats.values() for suffix in of_one)


def format_of(path: str, formats: Mapping[str, Sequence[str]] = EVERY) -> str:
    """The format that the suffix of a file name selects.

    Args:
        path: Name of the file.
        formats: The possible formats and their suffixes.

    Raises:
        UsageError: No possible format has this suffix.
    """
    named = PurePath(path).name[1:].lower()  # a file named .md is hidden and has no suffix
    for name, of_one in {**FLAME_GRAPHS, **formats}.items():  # before .json, because .speedscope.json ends in it
        if not named.endswith(tuple(of_one)):
            continue
        if name not in formats:
            raise UsageError(f"{path}: a flame graph is made of one trace, by traceanalyzer export TRACE -o {path}")
        return name
    suffix = PurePath(path).suffix.lower()
    if suffix == ".csv" and "csv" in formats:
        raise UsageError(f"{path}: a report has several tables; name a folder, with --format csv")
    if suffix in {".png", ".svg"}:
        raise UsageError(f"{path}: a report is no picture; report, diff and render draw one of it with --card {path}")
    if path.endswith("/") or Path(path).is_dir():
        example = PurePath(path) / f"report{suffixes(formats)[0]}"
        if not Path(path).is_dir():
            raise UsageError(f"{path}: there is no such folder; mkdir -p {path}, then name a file in it: -o {example}")
        raise UsageError(f"{path}: is a folder; name a file in it, such as {example}")
    found = f"no format here has the suffix {suffix}" if suffix else "has no suffix that says the format"
    raise UsageError(f"{path}: {found}; use one of {', '.join(suffixes(formats))}, or --format")


def render(
    report: Report,
    format: str,  # noqa: A002 - the word users know
    top: int | None = None,
    language: Language = ENGLISH,
) -> str:
    """Render a report as text.

    Args:
        report: The report.
        format: One of `FORMATS`.
        top: Number of rows of each ranking; None for the default of the format. JSON always contains all rows.
        language: Language of the texts (`language.of`); JSON does not depend on it.

    Raises:
        UsageError: There is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f"{format}: no such format; use one of {', '.join(FORMATS)}")
    module = import_module(f"traceanalyzer.formats.{format}")
    if format == "json":
        return cast("str", module.render(report))
    return cast("_Ranked", module.render)(report, top, language=language)


@cache
def environment(*, autoescape: bool = False) -> Environment:
    """Load Jinja2 templates, which contain only layout, from the package (a wheel) or from beside it (a checkout).

    Args:
        autoescape: Whether to escape values for HTML; templates of other formats escape each value themselves.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - slow to import

    folders = [_PACKAGE / "report_templates", _PACKAGE.parent / "report_templates"]
    made = Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=autoescape,  # noqa: S701 - see above
    )
    made.filters["plain"] = str
    return made
