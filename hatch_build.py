"""Compiles the catalogs and the scan of traces when the package is built.

python hatch_build.py    compile them in this checkout, as an editable installation does

Each `.po` file becomes a `.json`, so that reading a language needs neither gettext nor Babel: the plural rule, how the
language writes numbers and lists (Unicode CLDR, through Babel), and the translated texts by id.

The scan makes reading faster and is left out where there is no C compiler.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from setuptools import Distribution, Extension
from setuptools.errors import BaseError, CCompilerError

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
        """Compile into the checkout if the package is run from there; otherwise nothing is written into it."""
        if version == "editable":
            compile_all(ROOT)
            return
        self.folder = tempfile.TemporaryDirectory()
        compiled_to = Path(self.folder.name)
        if compile_all(compiled_to):
            platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
            build_data |= {"pure_python": False, "tag": f"cp311-abi3-{platform}"}
        for file in filter(Path.is_file, compiled_to.rglob("*")):
            build_data["force_include"][str(file)] = file.relative_to(compiled_to).as_posix()

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove what went into the wheel."""
        if version != "editable":
            self.folder.cleanup()


def compile_all(folder: Path) -> bool:
    """Compile everything into a folder, in which packages are folders; False if the scan could not be compiled."""
    for source in sorted(LOCALES.glob("*/LC_MESSAGES/*.po")):
        compile_one(source, folder / source.relative_to(ROOT).with_suffix(".json"))
    return compile_scan(folder)


def compile_scan(folder: Path) -> bool:
    """Compile the scan for this Python and all later ones; where that fails, say so, and leave none."""
    source = ROOT / (SCAN.replace(".", "/") + ".c")
    checksum = f"{zlib.crc32(source.read_bytes())}UL"
    with tempfile.TemporaryDirectory() as scratch:
        extension = Extension(SCAN, [str(source)], define_macros=[("CHECKSUM", checksum)], py_limited_api=True)
        command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder), scratch
        try:
            for built in (folder / source.relative_to(ROOT)).parent.glob("_scan*"):
                if built.suffix in (".so", ".pyd"):  # also those for one version of Python, which would come first
                    built.unlink()
            command.ensure_finalized()
            command.run()
        except (BaseError, CCompilerError, OSError) as error:
            notice = f"{source.name} was not compiled: everything works, but reading traces takes longer."
            sys.stderr.write(f"{notice}\nThe reason: {error}\n")
            return False
    return True


def compile_one(source: Path, target: Path) -> None:
    """Compile one `.po` file into a `.json` file."""
    locale = source.parts[-3]
    with source.open("rb") as file:
        data = compiled(read_po(file, locale=locale), locale)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":")), "utf-8")


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
    compile_all(ROOT)
