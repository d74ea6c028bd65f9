"""Renders the report as JSON, the contract that other programs read (docs/report.schema.json)."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.model import Report


def render(report: Report) -> str:
    """Encode a report as indented JSON with a final newline; the same report gives the same bytes."""
    return b"".join(encode(report)).decode()


def encode(report: Report) -> tuple[bytes, ...]:
    """Like `render`, but as pieces of bytes for a file, because a copy of a long report would take as much memory."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1), b"\n"
