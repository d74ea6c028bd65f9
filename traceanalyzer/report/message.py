"""Texts of a report: an id that catalogs translate, raw quantities, and the English rendering."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import msgspec

from traceanalyzer.report import units

_DECIDING_UNIT = "count"


class Message(msgspec.Struct, frozen=True):
    """One text in a report."""

    id: str
    """Id of the text; catalogs hold its translations under it."""
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
    """What a translator must know to translate it."""
    one: str = ""
    """The English singular, for texts whose wording depends on their first field of the unit `count`."""

    def __call__(self, **params: Any) -> Message:
        """The message with these quantities filled in."""
        is_one = bool(self.one) and params.get(deciding_field(self.english)) == 1
        english = _Filler().vformat(self.one if is_one else self.english, (), params)
        return Message(self.id, {name: _plain(value) for name, value in params.items()}, english)

    def __str__(self) -> str:
        return self.english


def fields(template: str) -> list[tuple[str, str]]:
    """The fields of a text and their units, in the order of the text.

    Raises:
        ValueError: The braces of the text do not match.
    """
    parts = string.Formatter().parse(template)
    return [(name, unit or "") for _, name, unit, _ in parts if name is not None]


def deciding_field(template: str) -> str:
    """The field whose number decides between singular and plural; "" if there is none."""
    return next((name for name, unit in fields(template) if unit == _DECIDING_UNIT), "")


def _plain(value: Any) -> Any:
    """Convert a value to what JSON holds, so that a report that is read back is the same."""
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return msgspec.to_builtins(value) if isinstance(value, Message) else value


class _Filler(string.Formatter):
    """Formats fields by unit instead of by Python's format language."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return units.render(value, format_spec)
