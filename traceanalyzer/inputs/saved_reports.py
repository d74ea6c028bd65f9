"""Reads reports and differences that were saved as JSON."""

from __future__ import annotations

import re
from typing import Any, Protocol, TypeVar

import msgspec

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.report import difference, model
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report

_HEAD = 4096
_LARGEST = 1 << 30
"""Largest accepted size of a report in bytes (own choice: about a thousand times a usual report)."""
_TRACE = 1 << 18
"""Bytes in which a trace has its list of events."""
_MARK = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which editors on Windows add."""
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_DIFFERENCE = re.compile(rb'"generator"\s*:\s*\{[^{}]*\}\s*,\s*"base"\s*:')
"""The text by which the head of a difference differs from that of a report."""

_PART = re.compile(rb'"source"\s*:\s*\{[^{}]*\}\s*,\s*"(?:verdicts|id)"\s*:')
"""The text by which the head of a report in brief, or of one finding, differs from that of a report."""

DIFFERENCE = "is a saved difference; name a report or a trace (render shows it)"
"""Error text for a difference where a report is needed."""

_PREDICTION = "is a saved prediction of whatif, which no command reads; name the trace"
_PART_OF_REPORT = "is a part of a report (brief, finding), which no command reads; name the report or the trace"
_REMEDY = "create it again from the trace"
_Saved = TypeVar("_Saved", Report, Difference)


class Peekable(Protocol):
    """A byte source that supports `peek`, such as `readers.source.Source`."""

    name: str

    def peek(self, size: int) -> bytes:
        """The next bytes, at most `size`, without consuming them."""


class _Kind(msgspec.Struct):
    """The schema version of a file, and what it is."""

    schema_version: int
    verdict: Any = None
    source: Any = None
    predicted_ns: Any = None

    @property
    def is_difference(self) -> bool:
        return self.verdict is not None and self.source is None


def begins(source: Peekable) -> bool:
    """Whether a source begins like a saved report or difference; a trace does not."""
    return is_head_of_saved(source.peek(_HEAD))


def is_head_of_saved(head: bytes) -> bool:
    """Whether these are the first bytes of a saved report or difference."""
    head = head[:_HEAD].removeprefix(_MARK).lstrip()
    is_saved = head.startswith(b"{") and b'"schema_version"' in head and b'"generator"' in head
    return is_saved and not _EVENTS.search(head)


def is_head_of_difference(head: bytes) -> bool:
    """Whether the first bytes of a saved file are those of a difference."""
    return _DIFFERENCE.search(head[:_HEAD]) is not None


def is_head_of_part(head: bytes) -> bool:
    """Whether the first bytes of a saved file are those of a report in brief, or of one finding."""
    return _PART.search(head[:_HEAD]) is not None


def read(source: Peekable, name: str | None = None) -> Report | Difference:
    """Read a saved report or difference.

    Args:
        source: The opened file.
        name: Name of the file for errors; None for that of the source.

    Raises:
        UnusableInputError: The file is neither, incomplete, too large, or has another schema version.
    """
    name, data = _bytes(source, name)
    if _kind(data, name).is_difference:
        return _decode(data, name, Difference, difference.SCHEMA_VERSION)
    return decode(data, name)


def read_report(source: Peekable, name: str | None = None) -> Report:
    """Read a saved report, for commands that do not accept a difference.

    Raises:
        UnusableInputError: As for `read`, or the file is a difference.
    """
    name, data = _bytes(source, name)
    return decode(data, name)


def decode(data: bytes, name: str) -> Report:
    """Decode a report from JSON.

    Args:
        data: The text, with or without a byte order mark.
        name: Name of the file, for errors.

    Raises:
        UnusableInputError: The text is not a report, incomplete, or has another schema version.
    """
    data = data.removeprefix(_MARK)
    if _kind(data, name).is_difference:
        raise UnusableInputError(f"{name}: {DIFFERENCE}")
    return _decode(data, name, Report, model.SCHEMA_VERSION).saved_as(name)


def _bytes(source: Peekable, name: str | None) -> tuple[str, bytes]:
    name = name or source.name
    data = source.peek(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnusableInputError(f"{name}: is too large for a report; name a file that report -o x.json wrote")
    return name, data.removeprefix(_MARK)


def _kind(data: bytes, name: str) -> _Kind:
    try:
        kind = msgspec.json.decode(data, type=_Kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _EVENTS.search(data[:_TRACE]):
            raise UnusableInputError(f"{name}: is a trace; traceanalyzer report reports on it") from None
        raise _not_whole(name, "report", error) from None
    if kind.predicted_ns is not None:
        raise UnusableInputError(f"{name}: {_PREDICTION}")
    if is_head_of_part(data):
        raise UnusableInputError(f"{name}: {_PART_OF_REPORT}")
    return kind


def _decode(data: bytes, name: str, kind: type[_Saved], version: int) -> _Saved:
    what = kind.__name__.lower()
    saved_version = _kind(data, name).schema_version
    if saved_version != version:
        raise UnusableInputError(
            f"{name}: is a {what} of schema {saved_version}, and this program reads {version}; {_REMEDY}"
        )
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_whole(name, what, error) from None


def _not_whole(name: str, what: str, error: Exception) -> UnusableInputError:
    return UnusableInputError(f"{name}: is not a complete {what} of traceanalyzer: {error}; {_REMEDY}")
