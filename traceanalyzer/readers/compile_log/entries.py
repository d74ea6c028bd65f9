"""Cuts a structured compile log into entries.

An entry is a line of torch's logger, a level, a date, a thread and a place, followed by a JSON object; lines that begin
with a tab are its payload (format: `torch/_logging/_internal.py`, `TorchLogsFormatter` and `trace_structured`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from traceanalyzer.readers.source import Source

_HEAD = re.compile(rb"(?:\[rank\d+\]:\s*)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+:\d+\]\s*(?=\{)")
_PAYLOAD = b"\t"
_LONGEST = 64 << 20
"""Bytes of a line: payloads are broken into lines, so only damage makes longer ones."""
_KEPT_PAYLOAD = 1 << 16
"""Bytes of a payload: reasons are short, generated code is long and not used."""


@dataclass
class LogEntry:
    """One entry: its JSON object, and the beginning of its payload as text."""

    data: dict[str, Any]
    payload: list[str] = field(default_factory=list)
    kept: int = 0


@dataclass
class Damage:
    """What could not be read."""

    lines: int = 0
    first: int | None = None
    """Number of the first such line, from 1."""

    def count(self, number: int) -> None:
        """Note a line that is not part of a log."""
        self.lines += 1
        self.first = number if self.first is None else self.first


def entries(source: Source, damage: Damage) -> Iterator[LogEntry]:
    """All entries of a log in order.

    Args:
        source: The log.
        damage: Counts lines that are neither entries nor payloads.
    """
    current: LogEntry | None = None
    with io.BufferedReader(source, 1 << 20) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_LONGEST), b""), start=1):
            if line.startswith(_PAYLOAD):
                _add(current, line)
                continue
            if not line.strip():
                continue
            data = _object(line)
            if data is None:
                damage.count(number)
                continue
            if current is not None:
                yield current
            current = LogEntry(data)
    if current is not None:
        yield current


def _add(entry: LogEntry | None, line: bytes) -> None:
    if entry is not None and entry.kept < _KEPT_PAYLOAD:
        text = line[1:].decode("utf-8", "replace").rstrip("\r\n")
        entry.payload.append(text)
        entry.kept += len(text) + 1


def _object(line: bytes) -> dict[str, Any] | None:
    """The JSON object of an entry's line; None where it is none."""
    head = _HEAD.match(line)
    if head is None:
        return None
    try:
        data = msgspec.json.decode(line[head.end() :].strip())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return data if isinstance(data, dict) else None
