"""The catalogs of `traceanalyzer/locales`, as the build compiles them (`hatch_build.py`)."""

from __future__ import annotations

import gettext
from collections.abc import Callable
from pathlib import Path

import msgspec

from traceanalyzer.errors import TraceAnalyzerError

LOCALES = Path(__file__).resolve().parent.parent / "locales"


class Entry(msgspec.Struct, frozen=True):
    """One text of a catalog."""

    forms: tuple[str, ...]
    """The translation, or its plural forms."""
    english: str = ""
    """Of a plural the English text, whose first count decides the form."""


class Symbols(msgspec.Struct, frozen=True):
    """How a language writes numbers and lists."""

    decimal: str
    """Between the whole number and its fraction."""
    group: str
    """Between thousands."""
    minus: str
    """Before negative numbers."""
    percent: str
    """What follows the number, blank included."""
    separator: str
    """Between the items of a list."""


class Catalog(msgspec.Struct, frozen=True):
    """All texts of one language."""

    plural: str
    """Rule of the plural in C, as gettext has it: from a number `n` to the index of a form."""
    symbols: Symbols
    """Signs in numbers and lists."""
    entries: dict[str, Entry]
    """Texts by id."""

    def plural_rule(self) -> Callable[[int], int]:
        """The rule of the plural as a function."""
        return gettext.c2py(self.plural)


def read(folder: str) -> Catalog:
    """Read the compiled catalog of a folder of `traceanalyzer/locales`.

    Raises:
        TraceAnalyzerError: It was not compiled: the program runs from a checkout that was never installed.
    """
    file = LOCALES / folder / "LC_MESSAGES" / "traceanalyzer.json"
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise TraceAnalyzerError(
            f"{file}: the texts of this language are not compiled; install the package (pip install -e .) "
            "or run python hatch_build.py in its checkout"
        ) from None
    return msgspec.json.decode(data, type=Catalog)
