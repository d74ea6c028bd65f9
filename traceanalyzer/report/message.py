"""Texts of a report: an id that catalogs translate, raw quantities, and the English rendering."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from traceanalyzer.report import units

_DECIDING_UNIT = "count"


class Message(msgspec.Struct, frozen=True):
    """One text in a report."""

    id: str
    """Id of the text, which is the key of its translations in catalogs."""
    params: dict[str, Any]
    """Raw quantities of the text by name; the template of the text names the unit of each."""
    text: str
    """The text in English, for readers without a catalog."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Text:
    """A text that users see, defined next to the code that uses it."""

    id: str
    english: str
    """The English text; its fields name their unit: `{lost:bytes} were lost`."""
    note: str = ""
    """Note for translators."""
    one: str = ""
    """The English singular, for texts whose wording depends on their first field of the unit `count`."""

    def __call__(self, **params: Any) -> Message:
        """The message with these quantities filled in."""
        is_one = bool(self.one) and params.get(deciding_field(self.english)) == 1
        english = fill(self.one if is_one else self.english, params, units.render)
        return Message(self.id, {name: _plain(value) for name, value in params.items()}, english)

    def __str__(self) -> str:
        return self.english


def fill(template: str, params: Mapping[str, Any], amount: Callable[[Any, str], str]) -> str:
    """Put quantities in place of the fields of a text.

    Args:
        template: The text, with fields that name their unit.
        params: A quantity for each field.
        amount: From a quantity and its unit to what people read.

    Raises:
        KeyError: A field has no quantity.
        ValueError: The braces of the text do not match, or a field is more than a name and a unit.
    """
    parts: list[str] = []
    before = ""
    for literal, name, unit in _parsed(template):
        shown = "" if name is None else amount(params[name], units.IN_SENTENCES.get(unit, unit))
        if before and literal in _LINKS and unit in units.TIMES:
            parts[-1] = _without_unit(parts[-1], shown)
        parts += (literal, shown)
        before = shown if unit in units.TIMES else ""
    filled = ""
    for part in parts:  # one by one, because a format may have texts that know which of their pieces are figures
        filled = filled + part
    return filled


_LINKS = (" of ", " to ", " \u2192 ", "-", " из ", " до ", "–", " 到 ", " 至 ")
"""What stands between two times of which only the second needs a unit: 10.7 of 10.9 ms."""
_AMOUNT = re.compile(r"([\d.,\s]*\d)(\s?[^\d\s]+)")
"""A number and its unit."""


def _without_unit(shown: str, following: str) -> str:
    """The number of a time, if the one that follows has the same unit."""
    one, other = _AMOUNT.fullmatch(shown), _AMOUNT.fullmatch(following)
    return shown.removesuffix(one[2]) if one and other and one[2] == other[2] else shown


def fields(template: str) -> list[tuple[str, str]]:
    """The fields of a text and their units, in the order of the text.

    Raises:
        ValueError: The braces of the text do not match, or a field is more than a name and a unit.
    """
    return [(name, unit) for _, name, unit in _parsed(template) if name is not None]


@lru_cache(8192)
def _parsed(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """The text before each field, the field's name and its unit; cached, because texts are filled in many times."""
    parts = []
    for literal, name, unit, conversion in string.Formatter().parse(template):
        if conversion or (unit and "{" in unit):
            raise ValueError(f"{template}: {{{name}}} must be {{name}} or {{name:unit}}")
        parts.append((literal, name, unit or ""))
    return tuple(parts)


@lru_cache(8192)
def deciding_field(template: str) -> str:
    """The field whose number decides between singular and plural; "" if there is none."""
    return next((name for name, unit in fields(template) if unit == _DECIDING_UNIT), "")


def _plain(value: Any) -> Any:
    """Convert a value to a type of JSON, so that a report that is read back is equal."""
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return msgspec.to_builtins(value) if isinstance(value, Message) else value
