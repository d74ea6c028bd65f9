"""Formats of a report. A format is a name, the suffixes that choose it, and a function to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Protocol, cast

from traceanalyzer.errors import UsageError
from traceanalyzer.renderers.language import ENGLISH, Language
from traceanalyzer.report.model import Report

FORMATS = {
    "terminal": (),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm"),
    "json": (".json",),
    "sarif": (".sarif",),
}
"""Formats that are text, and their suffixes; each is a module of this package, imported when it is used."""

BINARY = {"csv": (), "xlsx": (".xlsx",)}
"""Formats that are not one text: a folder of files, and a workbook (`renderers.spreadsheet`)."""


FLAME_GRAPHS = {"speedscope": (".speedscope.json",), "collapsed": (".collapsed",)}
"""Formats that are made of a trace, not of a report: flame graphs (`renderers.speedscope`, `renderers.collapsed`)."""


class _Ranked(Protocol):
    def __call__(self, report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str: ...


EVERY: Mapping[str, Sequence[str]] = {**FORMATS, **BINARY}
"""All formats of a report, and their suffixes."""


def suffixes(formats: Mapping[str, Sequence[str]] = EVERY) -> tuple[str, ...]:
    """The suffixes that choose one of these formats."""
    return tuple(suffix for of_one in formats.values() for suffix in of_one)


def format_of(path: str, formats: Mapping[str, Sequence[str]] = EVERY) -> str:
    """The format that a file name asks for.

    Args:
        path: The name.
        formats: Those that can be written, and their suffixes.

    Raises:
        UsageError: None of them has this suffix.
    """
    named = PurePath(path).name[1:].lower()  # a file called .md is hidden and has no suffix
    for name, of_one in {**FLAME_GRAPHS, **formats}.items():  # first, as .speedscope.json ends in .json
        if not named.endswith(tuple(of_one)):
            continue
        if name not in formats:
            raise UsageError(f"{path}: a flame graph is made of one trace, by traceanalyzer report TRACE -o {path}")
        return name
    suffix = PurePath(path).suffix.lower()
    if suffix == ".csv" and "csv" in formats:
        raise UsageError(f"{path}: a report has several tables; name a folder, with --format csv")
    found = f"no format here has the suffix {suffix}" if suffix else "has no suffix that says the format"
    raise UsageError(f"{path}: {found}; use one of {', '.join(suffixes(formats))}, or --format")


def render(
    report: Report,
    format: str,  # noqa: A002 - the word users know
    top: int | None = None,
    language: Language = ENGLISH,
) -> str:
    """A report as text.

    Args:
        report: The report.
        format: One of `FORMATS`.
        top: Rows of each ranking; the format's own default if None. JSON always holds all.
        language: What people read is in this language (`language.of`); JSON is the same in all.

    Raises:
        UsageError: There is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f"{format}: no such format; use one of {', '.join(FORMATS)}")
    module = import_module(f"traceanalyzer.renderers.{format}")
    if format == "json":
        return cast("str", module.render(report))
    return cast("_Ranked", module.render)(report, top, language=language)
