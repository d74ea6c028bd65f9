"""Reports that were saved as JSON, read back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.report.model import SCHEMA_VERSION, Report

_REMEDY = "make it anew from the trace"


class _Version(msgspec.Struct):
    """Which schema a report follows, and who wrote it."""

    schema_version: int


def decode(data: bytes, name: str) -> Report:
    """The report in a JSON text.

    Args:
        data: The text, with or without a byte order mark.
        name: Of the file, for errors.

    Raises:
        UnusableInputError: It is no report, not whole, or of another schema.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        found = msgspec.json.decode(data, type=_Version).schema_version
        if found != SCHEMA_VERSION:
            raise UnusableInputError(
                f"{name}: is a report of schema {found}, and this program reads {SCHEMA_VERSION}; {_REMEDY}"
            )
        return msgspec.json.decode(data, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableInputError(f"{name}: is no whole report of traceanalyzer: {error}; {_REMEDY}") from None


@contextmanager
def as_written(name: str) -> Iterator[None]:
    """Analyses are read as their own types, which someone may have changed in the file.

    Args:
        name: Of the file, for errors.

    Raises:
        UnusableInputError: An analysis is not as this program writes it.
    """
    try:
        yield
    except msgspec.ValidationError as error:
        raise UnusableInputError(f"{name}: was changed after it was written: {error}; {_REMEDY}") from None
