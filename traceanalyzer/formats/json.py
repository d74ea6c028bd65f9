"""Renders the report as JSON, the stable format for other programs (docs/report.schema.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import msgspec

from traceanalyzer.report.model import Report

_NOT_ASCII = re.compile(r"[^\n -~]")

_WITH_COLUMNS = frozenset({"slices"})
"""Analyses with long columns of numbers, each of which is one line: a line for each number would be mostly spaces."""

_ROWS = 1000
"""Number of list rows that are encoded at a time, because copies of a long report take much memory."""


def render(report: Report) -> str:
    """Encode a report as indented JSON with a final newline; equal reports give equal bytes."""
    return b"".join(encode(report)).decode()


def for_terminal(text: str) -> str:
    """The same JSON with escapes for characters that a terminal acts upon, such as U+009B and changes of direction."""
    return _NOT_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


def encode(report: Report) -> Iterator[bytes]:
    """Like `render`, but yields pieces of bytes for a file, which saves the memory of a copy of a long report."""
    yield from _pieces(report, b"\n")
    yield b"\n"


def _pieces(value: object, line: bytes, *, has_columns: bool = False) -> Iterator[bytes]:
    """Encode a value in the layout of msgspec, with the rows of long lists in pieces.

    Args:
        value: The report, or a part of it.
        line: A line break followed by the indentation of the line that contains the value.
        has_columns: Whether each list of numbers in it is one line.
    """
    members = _members(value)
    if members:
        mark = b"{"
        for name, member in members.items():
            yield mark + line + b" " + msgspec.json.encode(name) + b": "
            yield from _pieces(member, line + b" ", has_columns=has_columns or name in _WITH_COLUMNS)
            mark = b","
        yield line + b"}"
    elif has_columns and isinstance(value, (tuple, list)) and value:
        if not _members(value[0]):
            yield msgspec.json.encode(value)
            return
        mark = b"["
        for row in value:
            yield mark + line + b" "
            yield from _pieces(row, line + b" ", has_columns=True)
            mark = b","
        yield line + b"]"
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
    """Encode a value at once. JSON strings contain no line breaks, so every line break belongs to the layout."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).replace(b"\n", line)
