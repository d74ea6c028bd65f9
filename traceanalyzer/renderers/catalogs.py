"""Opens the catalogs of `traceanalyzer/locales`, and asks Babel how a language writes numbers and lists."""

from __future__ import annotations

import gettext
import re
from collections.abc import Sequence
from pathlib import Path

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

from traceanalyzer.renderers.language import FOLDERS, Entry, Symbols, Translated

LOCALES = Path(__file__).resolve().parent.parent / "locales"
DOMAIN = "traceanalyzer"
TEMPLATE = LOCALES / f"{DOMAIN}.pot"
_HTML_LANG = {"ru": "ru", "zh": "zh-Hans"}
_ACCENTED = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "ȧƀƈḓḗƒɠħīĵķŀḿƞǿƥɋřşŧŭṽẇẋẏẑȦƁƇḒḖƑƓĦĪĴĶĿḾȠǾƤɊŘŞŦŬṼẆẊẎẐ"
)
_FIELD = re.compile(r"(\{[^{}]*\})")


def compiled(folder: str) -> Path:
    """The compiled catalog of a folder."""
    return LOCALES / folder / "LC_MESSAGES" / f"{DOMAIN}.mo"


def translated(code: str) -> Translated:
    """The language of a code of `FOLDERS`."""
    folder = FOLDERS[code]
    with compiled(folder).open("rb") as file:
        catalog = read_mo(file)
    plural = gettext.c2py(catalog.plural_expr)
    return Translated(code, _HTML_LANG[code], _entries(catalog), plural, _symbols(Locale.parse(folder)))


def pseudo() -> Translated:
    """Accents and brackets around everything that the template holds."""
    with TEMPLATE.open("rb") as file:
        template = read_po(file)
    entries = {
        text.context: Entry(_several(text.id)[-1], tuple(map(_accented, _several(text.id))))
        for text in template
        if text.context
    }
    return Translated("x-pseudo", "x-pseudo", entries, lambda n: int(n != 1), Symbols(".", ",", "-", " %", ", "))


def _entries(catalog: Catalog) -> dict[str, Entry]:
    return {
        _id(text.context): Entry(_several(text.id)[-1], _several(text.string or ""))
        for text in catalog
        if text.context  # the head of the catalog has none
    }


def _id(context: str | bytes) -> str:
    """Babel's reader of compiled catalogs (2.18) does not decode contexts."""
    return context.decode("utf-8") if isinstance(context, bytes) else context


def _several(text: str | Sequence[str]) -> tuple[str, ...]:
    """A text is one, singular and plural, or the forms of a language."""
    return (text,) if isinstance(text, str) else tuple(text)


def _symbols(locale: Locale) -> Symbols:
    numbers = locale.number_symbols["latn"]
    return Symbols(
        decimal=numbers["decimal"],
        group=numbers["group"],
        minus=numbers["minusSign"],
        percent=locale.percent_formats[None].suffix[0],
        separator=locale.list_patterns["standard"]["middle"].format("", ""),
    )


def _accented(template: str) -> str:
    parts = _FIELD.split(template)
    return f"⟦{''.join(part if _FIELD.fullmatch(part) else part.translate(_ACCENTED) for part in parts)}⟧"
