"""Every pattern of the package, and how it is used."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard

import msgspec

import traceanalyzer
from traceanalyzer.knowledge.first_match import AnyOf

ROOT = Path(traceanalyzer.__file__).parent
METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")
_CALL = re.compile(rf"\bre\s*\.\s*(?:compile|{'|'.join(METHODS)})\b")


@dataclass(frozen=True)
class Found:
    """A pattern, the module that compiles it, and its name there."""

    module: str
    name: str
    pattern: re.Pattern[Any]

    @property
    def id(self) -> str:
        return f"{self.module}.{self.name}:{self.pattern.pattern!r:.40}"

    @property
    def methods(self) -> tuple[str, ...]:
        """How a pattern is used; all ways for patterns in tables, because the use of each is unknown."""
        files = [_path(self.module)] if self.name.startswith("_") else sorted(ROOT.rglob("*.py"))
        used = {method for file in files for method in _uses(file).get(self.name, ())}
        return tuple(sorted(used)) or ("match", "search")


@cache
def every() -> tuple[Found, ...]:
    """The patterns of all modules, each once: those in tables, too, and those within functions."""
    found: dict[tuple[Any, int], Found] = {}
    for name in modules():
        for each in (*_of_module(name), *_of_functions(name)):
            found.setdefault((each.pattern.pattern, each.pattern.flags), each)
    return tuple(found.values())


def modules() -> list[str]:
    """All modules in Python that can be imported without starting anything."""
    names = (module.name for module in pkgutil.walk_packages(traceanalyzer.__path__, "traceanalyzer."))
    return [
        name for name in names if not name.endswith(".__main__") and ".bootstrap" not in name and _path(name).exists()
    ]


def compiled_late(name: str) -> list[str]:
    """Functions of a module that compile patterns from their arguments."""
    return [
        f"{name}.{function.name}"
        for function, call in _calls(_path(name))
        if call.func.attr == "compile" and not _is_literal(call)  # type: ignore[attr-defined]
    ]


def _of_module(name: str) -> Iterator[Found]:
    for key, value in vars(importlib.import_module(name)).items():
        for pattern in _patterns(value):
            yield Found(name, key, pattern)


def _patterns(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, AnyOf):
        yield value.compiled
    elif isinstance(value, msgspec.Struct):
        yield from (pattern for held in msgspec.structs.astuple(value) for pattern in _patterns(held))
    elif isinstance(value, dict):
        yield from (pattern for item in value.items() for pattern in _patterns(item))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (pattern for item in value for pattern in _patterns(item))
    elif isinstance(value, FunctionType):  # made by `first_match.finds`, it holds the method of its pattern
        held = (getattr(cell.cell_contents, "__self__", None) for cell in value.__closure__ or ())
        yield from (pattern for each in held if isinstance(each, re.Pattern) for pattern in _patterns(each))


def _of_functions(name: str) -> Iterator[Found]:
    """`re.split("...", text)` and the like."""
    for _, call in _calls(_path(name)):
        if _is_literal(call):
            yield Found(name, "(literal)", re.compile(ast.literal_eval(call.args[0])))


@cache
def _calls(file: Path) -> list[tuple[ast.FunctionDef, ast.Call]]:
    """Calls such as `re.split(...)` in functions, each with every function around it."""
    if not _CALL.search(file.read_text("utf-8")):  # to parse the whole package takes seconds
        return []
    functions = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.FunctionDef)]
    return [(function, node) for function in functions for node in ast.walk(function) if _is_call(node)]


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {*METHODS, "compile"}
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
    )


def _is_literal(call: Any) -> bool:
    return isinstance(call.args[0], ast.Constant)


@cache
def _uses(file: Path) -> dict[str, set[str]]:
    """Methods by the object of their calls: `_LINE.search`, `_WHOLE[kind].fullmatch`, `known.BACKWARD.sub`."""
    uses: dict[str, set[str]] = {}
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            owner = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            uses.setdefault(name, set()).add(node.attr)
    return uses


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _path(module: str) -> Path:
    path = ROOT.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
