"""Collects every text of the package, for the catalogs: each `Text` in the code, and those in the pages of rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hatch_build import PageError, compiled_page
from traceanalyzer.report.message import deciding_field, fields
from traceanalyzer.report.units import UNITS

PACKAGE = Path(__file__).resolve().parent.parent / "traceanalyzer"

_HOME = "traceanalyzer.report.message"
_PARAMETERS = ("id", "english", "note", "one")


class BadTextError(Exception):
    """A text that cannot be collected, or a translation that does not fit it."""


@dataclass(frozen=True)
class Found:
    """A text in the source or on a page; several files may use it."""

    id: str
    english: str
    note: str
    one: str
    files: tuple[str, ...]

    @property
    def msgid(self) -> str | tuple[str, str]:
        """The key of the text for gettext, with its plural."""
        return (self.one, self.english) if self.one else self.english


def collect(package: Path = PACKAGE) -> list[Found]:
    """Every text of the package, in the order of files and lines.

    Raises:
        BadTextError: A text is not literal, its fields make no sense, or two texts share an id.
    """
    found: dict[str, Found] = {}
    files = [*package.rglob("*.py"), *package.glob("rules/pages/*.md")]
    for file in sorted(files, key=lambda path: path.parts):
        name = file.relative_to(package.parent).as_posix()
        for text in _of_page(file, name) if file.suffix == ".md" else _texts(ast.parse(file.read_text("utf-8")), name):
            known = found.get(text.id, text)
            if replace(known, files=()) != replace(text, files=()):
                raise BadTextError(f"{name}: {text.id} is another text in {known.files[0]}")
            found[text.id] = replace(known, files=tuple(dict.fromkeys((*known.files, name))))
    return list(found.values())


def _of_page(file: Path, name: str) -> Iterator[Found]:
    try:
        _, page = compiled_page(file, file.read_text("utf-8"))
    except PageError as error:
        raise BadTextError(f"{error}") from None
    for text in page["texts"].values():
        yield _checked(Found(text["id"], text["english"], text.get("note", ""), text.get("one", ""), (name,)), name)


def _texts(module: ast.Module, file: str) -> Iterator[Found]:
    imports = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom) and node.module == _HOME]
    names = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "Text"}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield _text(node, file)


def _text(call: ast.Call, file: str) -> Found:
    given = dict(zip(_PARAMETERS, call.args, strict=False)) | {word.arg or "**": word.value for word in call.keywords}
    values = {}
    for name, value in given.items():
        if name not in _PARAMETERS or not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            raise BadTextError(f"{file}:{call.lineno}: the {name} of a Text is no literal, so it cannot be collected")
        values[name] = value.value
    found = Found(values["id"], values["english"], values.get("note", ""), values.get("one", ""), (file,))
    return _checked(found, f"{file}:{call.lineno}")


def _checked(found: Found, place: str) -> Found:
    """The text, if its fields make sense."""
    unknown = {unit for _, unit in fields(found.english)} - UNITS
    if unknown:
        raise BadTextError(f"{place}: {found.id} has a field of no known unit: {', '.join(unknown)}")
    count = {field for field in fields(found.english) if field[0] == deciding_field(found.english)}
    if found.one and not (count and set(fields(found.one)) | count == set(fields(found.english))):
        raise BadTextError(f"{place}: {found.id}: the fields of singular and plural differ, or none counts")
    return found
