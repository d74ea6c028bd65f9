"""A report that holds one result, for sections."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.model import SCHEMA_VERSION, Generator, Report, Source


def report_with(key: str, result: msgspec.Struct | None) -> Report:
    """What a saved report gives back: the result as plain data."""
    analyses = {} if result is None else {key: msgspec.json.decode(msgspec.json.encode(result))}
    source = Source("trace.json", "kineto", None)
    return Report(SCHEMA_VERSION, Generator("traceanalyzer", "0"), source, None, (), analyses, (), ())
