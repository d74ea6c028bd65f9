"""Entries of compile logs, and the texts in them that torch writes for people.

The layout of texts differs by version: the reason of a break follows "Graph Break Reason:" (2.7 and later) or "Reason:"
(before), its place follows "Graph break in user code at".
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.readers.source import Source
from traceanalyzer.trace.compile_log import LoggedLookup, SourceLine

NS_PER_S = 10**9
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_HEAD = re.compile(
    rb"^(?:\[rank\d+\]:\s*)?[VDIWEC](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}) \d+ \S+:\d+\]\s*(?=\{)", re.MULTILINE
)
_SEARCHED = 1 << 16
"""Bytes at the beginning of a file that decide whether it is a log."""
_PAYLOAD = b"\t"
_LONGEST = 64 << 20
"""Bytes of a line: payloads are broken into lines, so only damage makes longer ones."""
_KEPT_PAYLOAD = 1 << 16
"""Bytes of a payload: reasons are short, generated code is long and not used."""


def begins(head: bytes) -> bool:
    """Whether a file with this beginning is a structured compile log."""
    return _HEAD.search(head[:_SEARCHED]) is not None


class LogEntry(msgspec.Struct):
    """One entry: its JSON object, and the beginning of its payload as text."""

    data: dict[str, Any]
    time_ns: int
    """Time of its line in ns since an unknown year began."""
    payload: list[str] = []
    kept: int = 0


class Damage(msgspec.Struct):
    """What could not be read."""

    lines: int = 0
    first: int | None = None
    """Number of the first such line, from 1."""

    def count(self, number: int) -> None:
        """Note a line that is not part of a log."""
        self.lines += 1
        self.first = number if self.first is None else self.first


def read_entries(source: Source, damage: Damage) -> Iterator[LogEntry]:
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
            found = _entry(line)
            if found is None:
                damage.count(number)
                continue
            if current is not None:
                yield current
            current = found
    if current is not None:
        yield current


def _add(entry: LogEntry | None, line: bytes) -> None:
    if entry is not None and entry.kept < _KEPT_PAYLOAD:
        text = line[1:].decode("utf-8", "replace").rstrip("\r\n")
        entry.payload.append(text)
        entry.kept += len(text) + 1


def _entry(line: bytes) -> LogEntry | None:
    """The entry that a line begins; None where it begins none."""
    head = _HEAD.match(line)
    if head is None:
        return None
    data = _decoded(line[head.end() :].strip())
    month, day, hour, minute, second = (int(head[group]) for group in range(1, 6))
    days = sum(_DAYS[: month - 1]) + day
    time_ns = ((days * 24 + hour) * 60 + minute) * 60 * NS_PER_S + second * NS_PER_S + int(head[6].ljust(9, b"0"))
    return LogEntry(data, time_ns) if isinstance(data, dict) else None


def _decoded(text: bytes | str, otherwise: Any = None) -> Any:
    """The value of a JSON text; another one where it is cut, damaged, or nested deeper than can be decoded."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return otherwise


_PLACE = re.compile(r"Graph break in user code at (.+):(\d{1,9})\s*$")
_REASON = re.compile(r"(?:Graph Break Reason|Reason):\s*(.*)$")
_HINT = re.compile(r"\s*Hint:\s*(.*)$")
_END = re.compile(r"User code traceback:|Traceback \(most recent|\s*Developer debug context")
_FRAME = re.compile(r'\s*File ".*", line (\d{1,9}), in (.*)')
_GENERAL = re.compile(r"Encountered graph break|Call to")
"""Reasons of this kind only say that there is a break; the next line says why."""


def graph_break(lines: Sequence[str]) -> tuple[SourceLine | None, str, str, str]:
    """Place, reason, first hint and line of code of a graph break; unknown parts are None or empty.

    Args:
        lines: The payload of an entry `dynamo_graph_break_reason`.
    """
    at, reason, hint, code = None, "", "", ""
    for number, line in enumerate(lines):
        if _END.match(line):
            function, code = _innermost(lines[number + 1 :], at) if line.startswith("User code") else ("", "")
            at = replace(at, function=function) if at else None
            break
        if at is None and (place := _PLACE.match(line)):
            at = SourceLine(place[1], int(place[2]))
        elif not reason and (found := _REASON.match(line)):
            reason = _announced(found[1].strip(), lines[number + 1 :])
        elif not hint and (found := _HINT.match(line)):
            hint = found[1].strip()
    return at, reason, hint, code


def _innermost(lines: Sequence[str], at: SourceLine | None) -> tuple[str, str]:
    """Function and line of code of the last frame of a stack, if it is at the place; empty if it is elsewhere."""
    function, code = "", ""
    stack = itertools.takewhile(lambda line: not _END.match(line), lines)
    for frame, line in itertools.pairwise((*stack, "")):
        if found := _FRAME.match(frame):
            is_there = at is not None and int(found[1]) == at.line
            function = found[2].strip() if is_there else ""
            code = line.strip() if is_there and not _FRAME.match(line) else ""
    return function, code


def _announced(reason: str, rest: Sequence[str]) -> str:
    """The reason itself: where the first line only announces one, the next line that is not empty."""
    if reason and not _GENERAL.match(reason):
        return reason
    return next((line.strip() for line in rest if line.strip()), reason)


def recompile_reasons(lines: Sequence[str]) -> tuple[str, ...]:
    """Why earlier compilations did not fit, without the number of the compilation that each is about.

    Args:
        lines: The payload of an entry `recompile_reasons`: a JSON list, or one reason a line.
    """
    found = _decoded("\n".join(lines), otherwise=[*lines])
    reasons = found if isinstance(found, list) else [found]
    return tuple(dict.fromkeys(plain_reason(str(reason)) for reason in reasons if str(reason).strip()))


def plain_reason(reason: str) -> str:
    """A reason in one line, without `0/0: ` before it."""
    return re.sub(r"^-?\s*\d+/\d+:\s*", "", " ".join(reason.split()))


LOOKUP = re.compile(r"(\w+)_cache_(hit|miss|bypass)")
"""Names of artifacts about caches."""


def cache_lookup(cache: str, outcome: str, lines: Sequence[str]) -> LoggedLookup:
    """A lookup; its payload is JSON with a list so long that it may be cut, before or after the figures."""
    text = "\n".join(lines)
    key = re.search(r'"key": "(\w+)"', text)
    taken = re.search(r'"time_(?:taken|saved)_ns": (\d{1,18})\b', text)
    reason = re.search(r'"cache_bypass_reason": ("(?:[^"\\]|\\.)*")', text)
    why = " ".join(str(_decoded(reason[1], otherwise=reason[1].strip('"'))).split()) if reason else ""
    return LoggedLookup(cache, outcome, key[1] if key else "", int(taken[1]) if taken else None, why)
