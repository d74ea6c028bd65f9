"""Texts for enumerated values in a report: causes, kinds, states. Later versions may have more values."""

from __future__ import annotations

from collections.abc import Mapping

from traceanalyzer.formats.language import UNKNOWN
from traceanalyzer.formats.names import clean
from traceanalyzer.report.message import Message, Text


def word(texts: Mapping[str, Text], key: str) -> Text | Message:
    """The text of a key; the key itself if this version has no text for it."""
    said = clean(key)
    return texts.get(key) or (Message("word-of-another-version", {}, said) if said else UNKNOWN)
