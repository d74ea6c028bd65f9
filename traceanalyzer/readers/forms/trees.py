"""Reads trees of calls, in which the place of a name in its line says what calls it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from traceanalyzer.readers.forms import values
from traceanalyzer.readers.forms.descriptions import Form, forms
from traceanalyzer.readers.forms.tables import make_row, make_table
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.surroundings import heading_above
from traceanalyzer.trace.document import ProfilerTable

_LONGEST = 4000
"""Number of characters of a line that are searched."""
_MOST_OTHER_LINES = 8
"""Lines between the header and the tree, and lines of hidden calls within it (own choice: there are five)."""
_OWN = "[self]"


@dataclass
class _Call:
    """A line of a tree."""

    depth: int
    name: str
    time: int
    line: int
    parents: tuple[str, ...]
    """Names of all that are around it."""
    own: int | None
    """Its own time; None where only what it calls is printed."""


def read_trees(lines: Lines) -> list[ProfilerTable]:
    """All trees of a document, each as a table of its functions."""
    found = []
    for form in forms()["trees"]:
        for at in range(len(lines)):
            header = form.header.search(lines[at][:_LONGEST]) if form.header else None
            whole = values.time_ns(header["total"], "s") if header else None
            calls = list(_calls(lines, at, form, whole)) if whole else []
            if calls:
                found.append(_table(lines, at, form, calls, whole))
    return found


def _calls(lines: Lines, at: int, form: Form, whole: int | None) -> Iterator[_Call]:
    """The lines of the tree below a header."""
    open_calls: list[_Call] = []
    others = 0
    for index in range(at + 1, len(lines)):
        text = lines[index][:_LONGEST].rstrip()
        match = form.line.match(text) if form.line else None
        if match is None:
            others += 1
            if others > _MOST_OTHER_LINES or (form.header and form.header.search(text)):
                return
            continue
        time = _time(match["time"], bool(match["share"]), whole)
        if time is None:
            continue
        others = 0
        depth = len(match["branch"])
        while open_calls and open_calls[-1].depth >= depth:
            open_calls.pop()
        if match["name"] == _OWN:
            if open_calls:
                open_calls[-1].own = time
            continue
        if open_calls and open_calls[-1].own == open_calls[-1].time:
            open_calls[-1].own = None
        parents = tuple(call.name for call in open_calls)
        call = _Call(depth, f"{match['place']}({match['name']})", time, lines.number(index), parents, time)
        open_calls.append(call)
        yield call


def _time(text: str, is_share: bool, whole: int | None) -> int | None:
    if not is_share:
        return values.time_ns(text, "s")
    number = values.number(text)
    return None if number is None or whole is None else round(number * whole / Decimal(100))


def _table(lines: Lines, at: int, form: Form, calls: list[_Call], whole: int | None) -> ProfilerTable:
    """One row for each function: its time where it is not within itself, and its own times."""
    names = dict.fromkeys(call.name for call in calls)
    rows = []
    for name in names:
        same = [call for call in calls if call.name == name]
        time = sum(call.time for call in same if name not in call.parents)
        own = [call.own for call in same if call.own is not None]
        rows.append(make_row(same[0].line, name, form.row, time, own=sum(own) if own else None, is_nested=True))
    return make_table(form, lines.number(at), heading_above(lines, at), rows, whole)
