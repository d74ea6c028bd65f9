"""The descriptions of `forms.toml`, compiled."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

_PATTERNS = ("header", "line", "pair", "before", "scale", "units")


@dataclass(frozen=True)
class FormColumn:
    """A column that a form may have: a pattern of its name, and what it holds."""

    pattern: re.Pattern[str]
    holds: str
    """name, calls, share, label, line, total, self, mean, device or skip."""
    unit: str = ""
    words: int = 1
    """Number of words of a cell where blanks stand between cells."""


@dataclass(frozen=True)
class Form:
    """What a tool prints: how to recognize it, and what it holds."""

    id: str
    tool: str
    mark: str = ""
    """What each text with it contains, as a pattern; empty where that is too little to look for."""
    row: str = ""
    """What a row is: kernel, copy, call, phase, function, line, operator, or named by the head of its column."""
    columns: tuple[FormColumn, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """What rows are from a label at the start of a line on."""
    nested: bool = False
    """Whether times of rows contain those of others, so that they have no sum."""
    whole: str | None = None
    """Name of the row that has the time of the whole program."""
    unit: str = ""
    above: int = 8
    """Number of lines above a header that may have the total and the unit (own choice: line_profiler needs five)."""
    least: int = 1
    """Number of different names that pairs must have."""
    of: str = ""
    """Form of the tables that stand in each section; `line` then is the heading of a section."""
    within: tuple[tuple[re.Pattern[str], str], ...] = ()
    """Patterns of names that are part of another one, and its name."""
    named_units: tuple[tuple[re.Pattern[str], str], ...] = ()
    pairs: tuple[tuple[str, re.Pattern[str]], ...] = ()
    separator: str | None = None
    key: str | None = None
    header: re.Pattern[str] | None = None
    line: re.Pattern[str] | None = None
    pair: re.Pattern[str] | None = None
    before: re.Pattern[str] | None = None
    scale: re.Pattern[str] | None = None
    units: re.Pattern[str] | None = None


@cache
def forms() -> Mapping[str, tuple[Form, ...]]:
    """All forms by what they are: `table`, `sections`, `trees`, `pairs` or `figures`."""
    page = resources.files("traceanalyzer.readers.forms").joinpath("forms.toml").read_text("utf-8")
    return {kind: tuple(map(_form, described)) for kind, described in tomllib.loads(page).items()}


@cache
def marks() -> re.Pattern[bytes]:
    """What shows in the bytes of a file that a table of another tool may be in it."""
    known = dict.fromkeys(form.mark for kind in forms().values() for form in kind if form.mark)
    return re.compile("|".join(known).encode())


def _form(described: Mapping[str, Any]) -> Form:
    values = {key: value for key, value in described.items() if key != "ignores_case"}
    flags = re.IGNORECASE if described.get("ignores_case") else re.NOFLAG
    for key in _PATTERNS:
        if key in values:
            values[key] = re.compile(values[key], flags)
    values["columns"] = tuple(_column(name, holds, flags) for name, holds in values.get("columns", ()))
    for key in ("within", "named_units"):
        values[key] = tuple((re.compile(pattern), text) for pattern, text in values.get(key, ()))
    values["pairs"] = tuple((name, re.compile(pattern)) for name, pattern in values.get("pairs", ()))
    return Form(**values)


def _column(name: str, holds: str, flags: re.RegexFlag) -> FormColumn:
    what, *more = holds.split(":")
    words = int(more.pop()) if more and more[-1].isdigit() else 1
    return FormColumn(re.compile(name, flags), what, more[0] if more else "", words)
