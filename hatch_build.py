"""Compiles the catalogs when the package is built, so that reading a language needs neither gettext nor Babel.

python hatch_build.py    compile them in this checkout (installing the package, editable or not, does the same)

Each `.po` file becomes a `.json` beside it: the plural rule, how the language writes numbers and lists (Unicode CLDR,
through Babel), and the translated texts by id.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # hatchling is installed only during a build
    BuildHookInterface = object

LOCALES = Path(__file__).resolve().parent / "traceanalyzer" / "locales"


class CatalogHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Runs before the wheel is put together, and before an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile every catalog; `artifacts` in pyproject.toml lets them in although git ignores them."""
        compile_all()


def compile_all() -> None:
    """Compile every catalog of this checkout."""
    for source in sorted(LOCALES.glob("*/LC_MESSAGES/*.po")):
        compile_one(source)


def compile_one(source: Path) -> None:
    """Compile one `.po` file into the `.json` file beside it."""
    locale = source.parts[-3]
    with source.open("rb") as file:
        data = compiled(read_po(file, locale=locale), locale)
    source.with_suffix(".json").write_text(
        json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":")), "utf-8"
    )


def compiled(catalog: Catalog, locale: str) -> dict[str, Any]:
    """The compiled catalog that the program reads: texts that are translated and not fuzzy."""
    ready = [m for m in catalog if m.context and not m.fuzzy and all(_several(m.string or ""))]
    return {
        "plural": catalog.plural_expr,
        "symbols": _symbols(Locale.parse(locale)),
        "entries": {m.context: _entry(m) for m in ready},
    }


def _entry(message: Message) -> dict[str, Any]:
    """A translation; for a plural also the English text, which shows the quantity that selects the form."""
    english = {"english": _several(message.id)[-1]} if message.pluralizable else {}
    return english | {"forms": _several(message.string or "")}


def _several(text: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """A text is one, singular and plural, or the forms of a language."""
    return (text,) if isinstance(text, str) else tuple(text)


def _symbols(locale: Locale) -> dict[str, str]:
    numbers = locale.number_symbols["latn"]
    return {
        "decimal": numbers["decimal"],
        "group": numbers["group"],
        "minus": numbers["minusSign"],
        "percent": locale.percent_formats[None].suffix[0],
        "separator": locale.list_patterns["standard"]["middle"].format("", ""),
    }


if __name__ == "__main__":
    compile_all()
