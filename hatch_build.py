"""Compiles the catalogs, the pages of the rules and the scan of traces when the package is built.

python hatch_build.py    compile them in this checkout, as an editable installation does

Each `.po` file becomes a `.json`, so that reading a language needs neither gettext nor Babel: the plural rule, how the
language writes numbers and lists (Unicode CLDR, through Babel), and the translated texts by id. The English texts
become a catalog, too: pages need to know which words of a sentence are figures.

The pages of the rules, `traceanalyzer/rules/pages/<id>.md`, become one `pages.json` with their texts, thresholds and
links, so that running a rule needs no parser of YAML or Markdown. CONTRIBUTING.md says how a page is written.

The scan makes reading faster and is left out where there is no C compiler.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
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
PAGES = ROOT / "traceanalyzer" / "rules" / "pages"
SCAN = "traceanalyzer.readers.kineto._scan"


class CompilingHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Runs before the wheel is put together, and before an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the checkout if the package is run from there; otherwise nothing is written into it."""
        if version == "editable":
            compile_in_place()
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


def compile_in_place() -> None:
    """Compile everything into this checkout.

    Each file is replaced at once: a program that runs from the checkout, or another build of it, never reads half of
    one.
    """
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        compile_all(Path(scratch))
        made = {ROOT / file.relative_to(scratch): file for file in Path(scratch).rglob("*") if file.is_file()}
        for target, file in made.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    for scan in ROOT.glob(f"{SCAN.replace('.', '/')}.*"):
        if scan.suffix in (".so", ".pyd") and scan not in made:  # one for a single version of Python would come first
            scan.unlink(missing_ok=True)


def compile_all(folder: Path) -> bool:
    """Compile everything into a folder, in which packages are folders; False if the scan could not be compiled."""
    for source in sorted(LOCALES.glob("*/LC_MESSAGES/*.po")):
        compile_one(source, folder / source.relative_to(ROOT).with_suffix(".json"))
    compile_pages(sorted(PAGES.glob("*.md")), folder / PAGES.relative_to(ROOT).with_suffix(".json"))
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
    if locale == "ru":
        english = target.parents[2] / "en" / target.parent.name / target.name
        english.parent.mkdir(parents=True, exist_ok=True)
        english.write_text(json.dumps(_english(source), ensure_ascii=False, separators=(",", ":")), "utf-8")


def _english(source: Path) -> dict[str, Any]:
    """The English texts of a catalog, with the symbols that numbers have in the messages of reports."""
    with source.open("rb") as file:
        texts = [message for message in read_po(file) if message.context]
    symbols = {"decimal": ".", "group": ",", "minus": "\u2212", "percent": " %", "separator": ", "}
    entries = {m.context: {"english": _several(m.id)[-1], "forms": _several(m.id)} for m in texts}
    return {"plural": "n != 1", "symbols": symbols, "entries": entries}


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
        "minus": "\u2212",  # CLDR has the hyphen that keyboards have, which is shorter and may end a line
        "percent": locale.percent_formats[None].suffix[0],
        "separator": locale.list_patterns["standard"]["middle"].format("", ""),
    }


# Pages of rules

SECTIONS = (
    "What it detects",
    "Why it matters",
    "What to do",
    "How the saving is estimated",
    "When it is wrong",
    "Thresholds",
    "References",
    "Texts",
)
"""Headings of the page of a rule."""
_WORDS = r"\[\w[\w-]*(, \w[\w-]*)*\]"
FACTS = {
    "order": r"\d+",
    "severity": r"\w+( to \w+)?",
    "confidence": r"[ABC]",
    "tags": _WORDS,
    "since": r"\d+\.\d+",
    "stage": r"\w+",
    "part_of": _WORDS,
    "is_rest": "true",
    "sums_up_idle": "true",
}
"""Keys of the front matter and patterns of their values; `traceanalyzer.rules.engine.rule.Rule` explains them."""
NEEDED_FACTS = ("order", "severity", "confidence", "tags", "since")
NEEDED_TEXTS = ("title", "summary", "advice", "not-when")
TABLE = ["| Key | Default | Unit | Meaning | Source |", "| :-- | --: | :-- | :-- | :-- |"]
_LINK = re.compile(r"\* (Background: )?<(https://\S+)>")
_CODE = re.compile(r"(.*?)(?:\n\n```python before\n(.+)\n```)?\n\n```python\n(.+)\n```", re.DOTALL)


class PageError(Exception):
    """What is wrong with the page of a rule, and where: one line."""

    def __init__(self, file: Path, line: int, problem: str) -> None:
        place = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        super().__init__(f"{place}:{line}: {problem}")


def compile_pages(files: Iterable[Path], target: Path) -> None:
    """Compile the pages of the rules into a `.json` file, in their order.

    Raises:
        PageError: A page is not written as it must be, or two pages have the same place in the order.
    """
    pages: dict[int, dict[str, Any]] = {}
    checksum = 0
    for file in files:
        order, page = compiled_page(file, file.read_text("utf-8"))
        if order in pages:
            raise PageError(file, 2, f"the order {order} is that of {pages[order]['id']}, too")
        pages[order] = page
        checksum = zlib.crc32(file.read_bytes(), checksum)
    content = {"checksum": checksum, "pages": [pages[order] for order in sorted(pages)]}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")


def compiled_page(file: Path, text: str) -> tuple[int, dict[str, Any]]:
    """The place of a page in the order, and what the program reads of it.

    Raises:
        PageError: The page is not written as it must be.
    """
    lines = text.split("\n")
    if lines[0] != "---" or "---" not in lines[1:]:
        raise PageError(file, 1, "no front matter between two lines of ---")
    end = lines.index("---", 1)
    facts, places = _mapping(file, 2, "\n".join(lines[1:end]), "the front matter")
    if problem := _misfit(facts, NEEDED_FACTS, FACTS):
        raise PageError(file, 2, f"the front matter: {problem}")
    for key, value in facts.items():
        if not re.fullmatch(FACTS[key], value if isinstance(value, str) else f"[{', '.join(value)}]"):
            raise PageError(file, places[key], f"the {key} is {value}, which is not {FACTS[key]}")
    order = int(facts.pop("order"))
    facts |= {flag: True for flag in ("is_rest", "sums_up_idle") if flag in facts}
    sections = _sections(file, lines, end + 1)
    prose = {heading: "\n".join(lines[first:last]).strip("\n") for heading, (first, last) in sections.items()}
    if code := _CODE.fullmatch(prose["What to do"]):
        prose["What to do"], facts["code"] = code[1], code[3]
        facts |= {"code_before": code[2]} if code[2] else {}
    if any("```" in prose[heading] for heading in SECTIONS[:5]):
        raise PageError(
            file, sections["What to do"][0], "code is not at the end of What to do, between ```python and ```"
        )
    links = [_link(file, number, line) for number, line in _filled(lines, *sections["References"])]
    return order, {
        "id": file.stem,
        **facts,
        "written": _written(prose, [link for _, link in links]),
        "thresholds": _thresholds(file, _filled(lines, *sections["Thresholds"])),
        "links": [link for is_background, link in links if not is_background],
        "texts": _texts(file, lines, *sections["Texts"]),
    }


def _written(prose: dict[str, str], links: list[str]) -> str:
    """The page as `traceanalyzer rules ID` prints it."""
    blocks = [prose[""]]
    for heading, text in [*((heading, prose[heading]) for heading in SECTIONS[:5]), ("References", "\n".join(links))]:
        lines = [f"    {line}" if line else "" for line in text.split("\n")]
        blocks.append("\n".join([f"{heading}:", *lines]))
    return "\n\n".join(blocks)


def _sections(file: Path, lines: list[str], first: int) -> dict[str, tuple[int, int]]:
    """First and last line of each section, counted from 0; that of the first sentence has no heading."""
    title = first + 1
    if lines[first : title + 2] != ["", f"# {file.stem}", ""]:
        raise PageError(file, title + 1, f"the page does not begin with # {file.stem} between empty lines")
    found = [(number, line[3:]) for number, line in enumerate(lines) if number > title and line.startswith("## ")]
    if [heading for _, heading in found] != list(SECTIONS):
        wrong = [number for (number, heading), wanted in zip(found, SECTIONS, strict=False) if heading != wanted]
        raise PageError(file, (wrong or [len(lines) - 1])[0] + 1, f"the headings are not {', '.join(SECTIONS)}")
    starts = [(title, ""), *found]
    ends = [number for number, _ in found] + [len(lines)]
    sections = {heading: (number + 1, end) for (number, heading), end in zip(starts, ends, strict=True)}
    for heading, (number, end) in sections.items():
        if not _filled(lines, number, end):
            raise PageError(file, number, f"nothing is below {heading or 'the title'}")
    return sections


def _filled(lines: list[str], first: int, last: int) -> list[tuple[int, str]]:
    """The lines of a section that are not empty, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(lines[first:last], first + 1) if line]


def _link(file: Path, number: int, line: str) -> tuple[bool, str]:
    """An address, and whether only the page shows it, but no finding."""
    found = _LINK.fullmatch(line)
    if found is None:
        raise PageError(file, number, "a reference is not * <https://...>, or * Background: <https://...>")
    return found[1] is not None, found[2]


def _thresholds(file: Path, rows: list[tuple[int, str]]) -> list[dict[str, Any]]:
    if [line for _, line in rows[:2]] != TABLE:
        raise PageError(file, rows[0][0], f"the table of thresholds does not begin with {TABLE[0]} and {TABLE[1]}")
    found = []
    for number, line in rows[2:]:
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if len(cells) != 5 or line != f"| {' | '.join(cells)} |" or not re.fullmatch(r"`\w+`", cells[0]):
            raise PageError(file, number, "a threshold is not | `key` | default | unit | meaning | source |")
        if not re.fullmatch(r"\d[\d_]*(\.\d+)?", cells[1]):
            raise PageError(file, number, f"the default is {cells[1]}, not a number such as 0.05 or 10_000")
        default = float(cells[1]) if "." in cells[1] else int(cells[1])
        found.append(dict(zip(("key", "default", "unit", "meaning", "source"), cells, strict=True)))
        found[-1] |= {"key": cells[0].strip("`"), "default": default}
    return found


def _texts(file: Path, lines: list[str], first: int, last: int) -> dict[str, dict[str, str]]:
    """The texts by key: id, English, and where there are some, the note and the singular."""
    block = "\n".join(lines[first:last]).strip("\n").split("\n")
    start = first + lines[first:last].index(block[0])
    if block[0] != "```yaml" or block[-1] != "```":
        raise PageError(file, start + 1, "the texts are not between ```yaml and ```")
    texts, places = _mapping(file, start + 2, "\n".join(block[1:-1]), "the texts")
    if problem := _misfit(texts, NEEDED_TEXTS, texts.keys()):
        raise PageError(file, start + 2, f"the texts: {problem}")
    found = {}
    for key, text in texts.items():
        whole = {"english": text} if isinstance(text, str) else text
        problem = _misfit(whole, ("english",), {"id", "english", "one", "note"}) if isinstance(whole, dict) else ""
        if problem or not isinstance(whole, dict) or not all(isinstance(value, str) for value in whole.values()):
            raise PageError(file, places[key], f"{key} is neither a text nor a mapping with english, one, note, id")
        found[key] = {"id": f"{file.stem}-{key}"} | whole
    return found


def _misfit(found: Iterable[str], needed: Iterable[str], known: Iterable[str]) -> str:
    """What is missing among keys, or too many; empty if nothing is."""
    if missing := [key for key in needed if key not in found]:
        return f"{', '.join(missing)} is missing"
    unknown = [key for key in found if key not in known]
    return f"{', '.join(unknown)} is unknown" if unknown else ""


def _mapping(file: Path, line: int, text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """A mapping in YAML, and the line of each key.

    Values are texts, lists and mappings; nothing is taken for a number or a truth value.
    """
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        row = line + (error.problem_mark.line if error.problem_mark else 0)
        raise PageError(file, row, f"{name}: {error.problem}") from None
    if not isinstance(node, yaml.MappingNode):
        raise PageError(file, line, f"{name} are no keys with values")
    places: dict[str, int] = {}
    for key, _ in node.value:
        if key.value in places:
            raise PageError(file, line + key.start_mark.line, f"{name}: {key.value} is there twice")
        places[key.value] = line + key.start_mark.line
    content: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - the base loader makes only texts
    return content, places


if __name__ == "__main__":
    try:
        compile_in_place()
    except PageError as wrong:
        sys.exit(str(wrong))
