"""Reads the catalogs of `traceanalyzer/locales`, which the build compiles (`hatch_build.py`)."""

from __future__ import annotations

import gettext
from collections.abc import Callable
from pathlib import Path

import msgspec

from traceanalyzer.errors import TraceAnalyzerError

LOCALES = Path(__file__).resolve().parent.parent / "locales"


class CatalogEntry(msgspec.Struct, frozen=True):
    """One text of a catalog."""

    forms: tuple[str, ...]
    """The translation, or its plural forms."""
    english: str = ""
    """The English text of a plural, whose first count selects the form; empty for other texts."""


class Symbols(msgspec.Struct, frozen=True):
    """Symbols of a language in numbers and lists."""

    decimal: str
    """The decimal separator."""
    group: str
    """Separator between groups of three digits."""
    minus: str
    """Minus sign before negative numbers."""
    percent: str
    """Percent sign after a number, including the blank."""
    separator: str
    """Text between the items of a list."""


class TextCatalog(msgspec.Struct, frozen=True):
    """All texts of one language."""

    plural: str
    """C expression for the index of the plural form of a number `n`, as in gettext."""
    symbols: Symbols
    """Symbols in numbers and lists."""
    entries: dict[str, CatalogEntry]
    """Texts by id."""

    def plural_rule(self) -> Callable[[int], int]:
        """The plural expression as a Python function."""
        return gettext.c2py(self.plural)


def read(folder: str) -> TextCatalog:
    """Read the compiled catalog of a folder of `traceanalyzer/locales`.

    Raises:
        TraceAnalyzerError: The catalog is not compiled: the program runs from a checkout that was never installed.
    """
    file = LOCALES / folder / "LC_MESSAGES" / "traceanalyzer.json"
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise TraceAnalyzerError(
            f"{file}: the texts of this language are not compiled; install the package (pip install .) "
            "or run python hatch_build.py in its checkout"
        ) from None
    return msgspec.json.decode(data, type=TextCatalog)
