"""Reads reports and differences that were saved as JSON, for every command."""

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
"""Bytes of a report that are read (own choice: reports are a thousandth of it)."""
_MARK = b"\xef\xbb\xbf"
"""The byte order mark that editors on Windows put before UTF-8."""
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_DIFFERENCE = re.compile(rb'"generator"\s*:\s*\{[^{}]*\}\s*,\s*"base"\s*:')
"""How a difference goes on where a report names its source."""

DIFFERENCE = "is a saved difference; name a report or a trace (render shows it)"
"""What is wrong with a difference where a report is needed."""

_REMEDY = "create it again from the trace"
_Saved = TypeVar("_Saved", Report, Difference)


class Peekable(Protocol):
    """Where bytes come from, whatever it is; `readers.source.Source` is one."""

    name: str

    def peek(self, size: int) -> bytes:
        """The next bytes, at most `size`, without using them up."""


class _Kind(msgspec.Struct):
    """Which schema a file follows, and whether it is a difference."""

    schema_version: int
    verdict: Any = None
    source: Any = None

    @property
    def is_difference(self) -> bool:
        return self.verdict is not None and self.source is None


def begins(source: Peekable) -> bool:
    """Whether it begins like a saved report or difference; a trace does not."""
    return is_head_of_saved(source.peek(_HEAD))


def is_head_of_saved(head: bytes) -> bool:
    """Whether these are the first bytes of a saved report or difference."""
    head = head[:_HEAD].removeprefix(_MARK).lstrip()
    is_saved = head.startswith(b"{") and b'"schema_version"' in head and b'"generator"' in head
    return is_saved and not _EVENTS.search(head)


def is_head_of_difference(head: bytes) -> bool:
    """Whether the first bytes of something saved are those of a difference."""
    return _DIFFERENCE.search(head[:_HEAD]) is not None


def read(source: Peekable, name: str | None = None) -> Report | Difference:
    """The report or the difference that was saved.

    Args:
        source: The file.
        name: Of the file, for errors; the source's own if None.

    Raises:
        UnusableInputError: It is neither, not whole, too large, or of another schema.
    """
    name, data = _bytes(source, name)
    if _kind(data, name).is_difference:
        return _decode(data, name, Difference, difference.SCHEMA_VERSION)
    return decode(data, name)


def read_report(source: Peekable, name: str | None = None) -> Report:
    """The report that was saved, for commands that have no use for a difference.

    Raises:
        UnusableInputError: As of `read`; or it is a difference.
    """
    name, data = _bytes(source, name)
    return decode(data, name)


def decode(data: bytes, name: str) -> Report:
    """Decode the report in a JSON text.

    Args:
        data: The text, with or without a byte order mark.
        name: Of the file, for errors.

    Raises:
        UnusableInputError: It is not a report, not whole, or of another schema.
    """
    data = data.removeprefix(_MARK)
    if _kind(data, name).is_difference:
        raise UnusableInputError(f"{name}: {DIFFERENCE}")
    return _decode(data, name, Report, model.SCHEMA_VERSION).saved_as(name)


def _bytes(source: Peekable, name: str | None) -> tuple[str, bytes]:
    name = name or source.name
    data = source.peek(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnusableInputError(f"{name}: is larger than any report; name a file that report -o x.json wrote")
    return name, data.removeprefix(_MARK)


def _kind(data: bytes, name: str) -> _Kind:
    try:
        return msgspec.json.decode(data, type=_Kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_whole(name, "report", error) from None


def _decode(data: bytes, name: str, kind: type[_Saved], version: int) -> _Saved:
    what = kind.__name__.lower()
    found = _kind(data, name).schema_version
    if found != version:
        raise UnusableInputError(f"{name}: is a {what} of schema {found}, and this program reads {version}; {_REMEDY}")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_whole(name, what, error) from None


def _not_whole(name: str, what: str, error: Exception) -> UnusableInputError:
    return UnusableInputError(f"{name}: is not a complete {what} of traceanalyzer: {error}; {_REMEDY}")
