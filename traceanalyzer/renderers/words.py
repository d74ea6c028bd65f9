"""Words for what a report enumerates: causes, kinds, states. A report of a later version may enumerate more."""

from __future__ import annotations

from collections.abc import Mapping

from traceanalyzer.renderers.language import UNKNOWN
from traceanalyzer.renderers.names import clean
from traceanalyzer.report.message import Message, Text


def word(texts: Mapping[str, Text], key: str) -> Text | Message:
    """The text of a key; the key itself where this version has no text for it."""
    said = clean(key)
    return texts.get(key) or (Message("word-of-another-version", {}, said) if said else UNKNOWN)
