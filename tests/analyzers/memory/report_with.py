"""A report that holds one result, for sections, and their cells as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import SCHEMA_VERSION, Generator, Report, ReportSource


def report_with(key: str, result: msgspec.Struct | None) -> Report:
    """What a saved report gives back: the result as plain data."""
    analyses = {} if result is None else {key: msgspec.json.decode(msgspec.json.encode(result))}
    source = ReportSource("trace.json", "kineto", None)
    return Report(SCHEMA_VERSION, Generator("traceanalyzer", "0"), source, None, (), analyses, (), (), ())


def in_english(rows: Iterable[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """Rows with their texts as words."""
    return tuple(tuple(ENGLISH.text(cell) if isinstance(cell, Text) else cell for cell in row) for row in rows)
