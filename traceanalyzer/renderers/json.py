"""Renders the report as JSON, the contract that other programs read (docs/report.schema.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from traceanalyzer.report.model import Report

_ROWS = 1000
"""Rows of a list that are encoded at a time: a trace of many names has a long report, and each copy costs as much."""


def render(report: Report) -> str:
    """Encode a report as indented JSON with a final newline; the same report gives the same bytes."""
    return b"".join(encode(report)).decode()


def encode(report: Report) -> Iterator[bytes]:
    """Like `render`, but as pieces of bytes for a file, because a copy of a long report would take as much memory."""
    yield from _pieces(report, b"\n")
    yield b"\n"


def _pieces(value: object, line: bytes) -> Iterator[bytes]:
    """A value laid out as msgspec does it, rows of long lists a piece at a time.

    Args:
        value: The report, or a part of it.
        line: The line break, and the indentation of the line that the value stands in.
    """
    members = _members(value)
    if members:
        mark = b"{"
        for name, member in members.items():
            yield mark + line + b" " + msgspec.json.encode(name) + b": "
            yield from _pieces(member, line + b" ")
            mark = b","
        yield line + b"}"
    elif isinstance(value, tuple) and len(value) > _ROWS:
        mark = b"["
        for start in range(0, len(value), _ROWS):
            yield mark + _whole(value[start : start + _ROWS], line)[1 : -1 - len(line)]
            mark = b","
        yield line + b"]"
    else:
        yield _whole(value, line)


def _members(value: object) -> Mapping[str, object]:
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return value if isinstance(value, Mapping) else {}


def _whole(value: object, line: bytes) -> bytes:
    """Strings hold no line break as such, so every one of them begins a line of the layout."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).replace(b"\n", line)
