"""Renders the report as JSON, the contract that other programs read (docs/report.schema.json)."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.model import Report


def render(report: Report) -> str:
    """Encode a report as indented JSON with a final newline; the same report gives the same bytes."""
    return b"".join(encode(report)).decode()


def encode(report: Report) -> tuple[bytes, ...]:
    """The same as pieces of bytes for a file: the report of a trace of many names is long, and a copy costs as much."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1), b"\n"
