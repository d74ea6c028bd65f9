"""Formats of a report. A format is a name, the suffixes that choose it, and a function to text."""

from __future__ import annotations

from importlib import import_module
from pathlib import PurePath
from typing import Protocol, cast

from traceanalyzer.errors import UsageError
from traceanalyzer.report.model import Report

FORMATS = {"terminal": (), "markdown": (".md", ".markdown"), "json": (".json",)}
"""Formats and their suffixes; each is a module of this package, imported when it is used."""


class _Ranked(Protocol):
    def __call__(self, report: Report, top: int | None = None) -> str: ...


def format_of(path: str) -> str:
    """The format that a file name asks for.

    Raises:
        UsageError: No format has this suffix.
    """
    suffix = PurePath(path).suffix.lower()
    for name, suffixes in FORMATS.items():
        if suffix in suffixes:
            return name
    known = ", ".join(s for suffixes in FORMATS.values() for s in suffixes)
    raise UsageError(f"{path}: no format has the suffix {suffix or '(none)'}; use one of {known}, or --format")


def render(report: Report, format: str, top: int | None = None) -> str:  # noqa: A002 - the word users know
    """A report as text.

    Args:
        report: The report.
        format: One of `FORMATS`.
        top: Rows of each ranking; the format's own default if None. JSON always holds all.

    Raises:
        UsageError: There is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f"{format}: no such format; use one of {', '.join(FORMATS)}")
    module = import_module(f"traceanalyzer.renderers.{format}")
    if format == "json":
        return cast("str", module.render(report))
    return cast("_Ranked", module.render)(report, top)
