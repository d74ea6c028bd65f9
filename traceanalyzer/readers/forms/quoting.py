"""Takes away what stands around each line of a quoted text: marks of mails and comments, labels of logs, boxes.

Tables of torch show by their dashes what is theirs; those of other tools have no such mark. So a mark counts if some
lines after each other have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.splitting import LABEL

_FEWEST = 3
"""Lines after each other that must have a mark (own choice: headings are single, and dmon has two lines of names)."""
_STRING = re.compile(r'^\s*(?P<string>"(?:[^"\\]|\\.)*"),?\s*$')
"""A line of a list of strings, as notebooks hold outputs."""
_TIME = r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?\]?"
_MARKS = (
    re.compile(r"^\s{0,3}(?P<mark>>)(?: ?>)* ?(?P<text>.*)$"),
    re.compile(rf"(?P<mark>){_TIME}(?: ?- [A-Z]+ -| \[?(?:DEBUG|INFO|WARNING)\]?:?)? ?(?P<text>.*)$"),
    re.compile(r"^(?P<mark>[\w.-]{1,60}) +\|(?: (?P<text>.*))?$"),
    re.compile(rf"(?P<mark>){LABEL.pattern}(?P<text>.*)$", re.IGNORECASE),
    re.compile(r"^(?P<mark>#)(?: (?P<text>.*))?$"),
    re.compile(r"^\s*(?P<mark>[│┃]) (?P<text>.*?) ?[│┃]\s*$"),
)
"""What stands before and after the text of a line; the mark is the same in all lines. Times come before labels of
ranks, whose pattern would take part of a time for the number of a rank."""


def unquoted(lines: Lines) -> Lines:
    """The same lines without such marks, and with strings of lists as what they hold."""
    lines = _without(lines, _string)
    for pattern in _MARKS:
        lines = _without(lines, partial(_marked, pattern))
    return lines


def _marked(pattern: re.Pattern[str], text: str) -> tuple[str, str] | None:
    match = pattern.match(text)
    return (match["mark"], match["text"] or "") if match else None


def _string(text: str) -> tuple[str, str] | None:
    match = _STRING.match(text) if '"' in text else None
    if match is None:
        return None
    try:
        held = json.loads(match["string"], strict=False)
    except json.JSONDecodeError:
        return None
    return "", str(held).rstrip("\r\n")


def _without(lines: Lines, look: Callable[[str], tuple[str, str] | None]) -> Lines:
    """The lines, where several after each other have the same mark without it."""
    changed: dict[int, tuple[str]] = {}
    block: dict[int, tuple[str]] = {}
    mark: str | None = None
    for index in range(len(lines) + 1):
        found = look(lines[index]) if index < len(lines) else None
        if found is None or (mark is not None and found[0] != mark):
            changed |= block if len(block) >= _FEWEST else {}
            block = {}
        mark = found[0] if found else None
        if found:
            block[index] = (found[1],)
    return lines.replaced(changed) if changed else lines
