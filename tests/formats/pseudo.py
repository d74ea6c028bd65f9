"""A language in which every text of a catalog is accented and bracketed: what is plain has escaped translation."""

from __future__ import annotations

import re

from babel.messages.pofile import read_po

from traceanalyzer.formats.language import LOCALES, CatalogEntry, Symbols, TextCatalog, Translated

_ACCENTED = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "ȧƀƈḓḗƒɠħīĵķŀḿƞǿƥɋřşŧŭṽẇẋẏẑȦƁƇḒḖƑƓĦĪĴĶĿḾȠǾƤɊŘŞŦŬṼẆẊẎẐ"
)
_FIELD = re.compile(r"(\{[^{}]*\})")


def pseudo() -> Translated:
    """A pseudo translation of everything in a catalog, with accents and brackets."""
    with (LOCALES / "ru" / "LC_MESSAGES" / "traceanalyzer.po").open("rb") as file:
        catalog = read_po(file)
    entries = {}
    for text in catalog:
        if text.context:
            forms = (text.id,) if isinstance(text.id, str) else tuple(text.id)
            entries[text.context] = CatalogEntry(tuple(map(_accented, forms)), forms[-1])
    return Translated("x-pseudo", "x-pseudo", TextCatalog("n != 1", Symbols(".", ",", "-", " %", ", "), entries))


def _accented(template: str) -> str:
    parts = _FIELD.split(template)
    return f"⟦{''.join(part if _FIELD.fullmatch(part) else part.translate(_ACCENTED) for part in parts)}⟧"
