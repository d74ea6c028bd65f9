"""Compiles the catalogs and the scan of traces when the package is built.

python hatch_build.py    compile them in this checkout (installing the package, editable or not, does the same)

Each `.po` file becomes a `.json` beside it, so that reading a language needs neither gettext nor Babel: the plural
rule, how the language writes numbers and lists (Unicode CLDR, through Babel), and the translated texts by id.

The scan makes reading faster and is left out where there is no C compiler.
"""

from __future__ import annotations

import json
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from setuptools import Distribution, Extension

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # hatchling is installed only during a build
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent
LOCALES = ROOT / "traceanalyzer" / "locales"
SCAN = "traceanalyzer.readers.kineto._scan"


class CompilingHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Runs before the wheel is put together, and before an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile everything; `artifacts` in pyproject.toml lets the catalogs in although git ignores them."""
        compile_catalogs()
        if scan := compile_scan():
            build_data |= {"pure_python": False, "infer_tag": True}
            build_data["force_include"][str(scan)] = scan.relative_to(ROOT).as_posix()


def compile_scan() -> Path | None:
    """Compile the scan of this checkout for this Python; None where that fails."""
    built = ROOT / (SCAN.replace(".", "/") + str(sysconfig.get_config_var("EXT_SUFFIX")))
    built.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = str(ROOT / (SCAN.replace(".", "/") + ".c"))
        command = Distribution({"ext_modules": [Extension(SCAN, [source], optional=True)]}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(ROOT), folder
        command.ensure_finalized()
        command.run()
    return built if built.exists() else None


def compile_catalogs() -> None:
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
    compile_catalogs()
    compile_scan()
