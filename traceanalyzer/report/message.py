"""Texts of a report: an id that catalogs translate, raw quantities, and the English rendering."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import msgspec

from traceanalyzer.report import units


class Message(msgspec.Struct, frozen=True):
    """One text in a report."""

    id: str
    params: dict[str, Any]
    """Raw quantities; the template names the unit of each."""
    text: str
    """English, for readers without a catalog."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Text:
    """A text that users see, defined beside the code that says it."""

    id: str
    english: str
    """Fields name their unit: `{lost:bytes} were lost`."""
    note: str = ""
    """What a translator must know."""

    def __call__(self, **params: Any) -> Message:
        """The message with these quantities filled in."""
        return Message(self.id, params, _Filler().vformat(self.english, (), params))


class _Filler(string.Formatter):
    """Formats fields by unit instead of by Python's format language."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return units.render(value, format_spec)
