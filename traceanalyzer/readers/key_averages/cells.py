"""Splits the text of a row into the texts of its cells.

Three methods, the most exact first: by the runs of dashes (they fit the rows), by the positions of the header's
names, and by the format of the values, for texts whose blanks were stripped, collapsed or replaced by tabs.

Cells become a row of the document: values by column, and a count of those that could not be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from traceanalyzer.readers.key_averages.header import Header, PrintedColumn
from traceanalyzer.readers.key_averages.lines import Span
from traceanalyzer.readers.key_averages.values import PATTERNS, ValueKind, read_value
from traceanalyzer.trace.document import TableRow

_FLOPS = re.compile(rf"(?<!\S)(?:{PATTERNS[ValueKind.FLOPS]})(?!\S)")
_AFTER_CUT_SHAPES = re.compile(
    r"(?<!\S)(?:--|[0-9]+\.[0-9]{3})(?!\S)|(?<= )\S+\([0-9]+\): |(?<= )(?:\.\.\.|<built-in )"
)
"""Pattern of the text after a list of shapes whose brackets do not close."""


def split_tail(text: str, kinds: Sequence[ValueKind]) -> list[str | None]:
    """Texts by column, in the order of `kinds`; FLOPs beside a source are recognized by their format."""
    found: dict[ValueKind, str] = {}
    if ValueKind.SHAPES in kinds:
        end = _end_of_shapes(text) if len(kinds) > 1 else len(text)
        found[ValueKind.SHAPES], text = text[:end].strip(), text[end:].strip()
    if ValueKind.FLOPS in kinds and (match := _FLOPS.match(text) or _at_end(text)):
        found[ValueKind.FLOPS], text = match[0], (text[: match.start()] + text[match.end() :]).strip()
    if ValueKind.SOURCE in kinds:
        found[ValueKind.SOURCE] = text
    return [found.get(kind) for kind in kinds]


def shapes_are_cut(shapes: str) -> bool:
    """Whether the brackets of a printed list do not close."""
    return shapes.count("[") != shapes.count("]")


def _end_of_shapes(text: str) -> int:
    depth = 0
    for match in re.finditer(r"[\[\]]", text):
        depth += 1 if match[0] == "[" else -1
        if depth == 0:
            return match.end()
    after = _AFTER_CUT_SHAPES.search(text)
    return after.start() if after else len(text)


def _at_end(text: str) -> re.Match[str] | None:
    last = text.rfind(" ") + 1
    return _FLOPS.fullmatch(text, last)


NUMERIC = frozenset({ValueKind.SHARE, ValueKind.TIME, ValueKind.BYTES, ValueKind.COUNT, ValueKind.NODE})
"""Kinds that every row has and that can be recognized by their format; FLOPs may be swapped with the source."""

_WORD = r"\S+"
"""Pattern of a cell of an unknown column."""

_BARE = frozenset({ValueKind.COUNT, ValueKind.NODE, ValueKind.FLOPS})
_MEASURED = (ValueKind.SHARE, ValueKind.TIME, ValueKind.BYTES)
_VALUE_AT_END = re.compile(rf"\s\s(?:{'|'.join(PATTERNS[kind] for kind in _MEASURED)})$")
_SHAPES = re.compile(r"\[\S*(?: \S+)*")
"""Pattern of a list as Python prints it, which never has two consecutive blanks."""

_UNIT = r" ?(?:%|[nuµμm]?s\b|[kKmMgGtT]?i?[bB]\b)"
_COMMA = re.compile(rf"(?<=[0-9]),(?=[0-9]{{2,3}}{_UNIT})")
_POINT = re.compile(rf"[0-9]\.[0-9]{{1,3}}{_UNIT}")

Cells = list[str | None]
"""Texts by column, stripped; None where the row ends before the column."""


def with_points(line: str) -> str:
    """The line with a point for each decimal comma, which spreadsheets in many languages put into pasted tables.

    Commas that can be anything else stay: in the names of kernels, and in lines that have a decimal point, too.
    """
    return line if _POINT.search(line) else _COMMA.sub(".", line)


class PrintedGrid:
    """The columns of one table and their positions in its rows."""

    def __init__(self, header: Header, runs: Sequence[Span]) -> None:
        self.columns = header.columns
        self._by_dashes = list(runs) if len(runs) >= len(header.columns) else []
        self._numeric = [i for i, column in enumerate(header.columns) if column.kind in NUMERIC]

    def split(self, row: str) -> Cells | None:
        """Cells of a row, or None if the text is not a row of this table."""
        row = with_points(row.expandtabs(8))
        sliced = list(self._slices(row))
        for cells in sliced:
            if self._misread(cells) == 0 and self._is_whole(cells):
                return cells
        if cells_by_looks := self._by_looks(row):
            return cells_by_looks
        plausible = [cells for cells in sliced if self._is_plausible(cells)]
        return min(plausible, key=self._misread, default=None)

    def source_of_continuation(self, row: str) -> str | None:
        """The stack frame in a row whose other cells are blank, or None."""
        starts = [
            span[0] for column, span in zip(self.columns, self._spans, strict=False) if column.kind is ValueKind.SOURCE
        ]
        is_blank_before = any(not row[:start].strip() for start in starts)
        return row.strip() if is_blank_before or _FRAME.search(row) else None

    def drop_cut_cell(self, row: str, cells: Cells) -> None:
        """Drop the last value of a row where the text ends, because it may be cut off."""
        present = [i for i, cell in enumerate(cells) if cell]
        if not present:
            return
        last = present[-1]
        kind, text = self.columns[last].kind, cells[last] or ""
        if kind is ValueKind.SOURCE and any(column.kind is ValueKind.FLOPS for column in self.columns):
            kind = ValueKind.FLOPS  # torch prints FLOPs in that column
        if kind not in PATTERNS:
            return
        is_bare = kind in _BARE or text == "0"  # values of other kinds end in a unit
        reaches_edge = last < len(self._spans) and len(row) == self._spans[last][1]
        if not read_value(kind, text) or (is_bare and not reaches_edge and row == row.rstrip()):
            cells[last] = None

    @property
    def _spans(self) -> list[Span]:
        return self._by_dashes or self._by_header

    @cached_property
    def _by_header(self) -> list[Span]:
        """Positions of the columns by the header: right-aligned columns end where their names end."""
        ends = [column.end for column in self.columns]
        return list(zip([0, *ends], ends, strict=False))

    def _slices(self, row: str) -> Iterator[Cells]:
        for spans in filter(None, (self._by_dashes, self._by_header)):
            if (cells := self._cut(row, spans)) is not None:
                yield cells

    def _cut(self, row: str, spans: Sequence[Span]) -> Cells | None:
        """Cut a row into cells at the spans; None if that would split a word."""
        width = len(row.rstrip())
        spans = spans[: len(self.columns)] if len(spans) > len(self.columns) else [*spans[:-1], (spans[-1][0], width)]
        cells: Cells = []
        for i, (start, end) in enumerate(spans):
            gap = row[end : spans[i + 1][0]] if i + 1 < len(spans) else ""
            torn = end < width and not row[end].isspace() and not row[end - 1].isspace()
            if gap.strip() or torn:
                return None
            cells.append(row[start:end].strip() if start < width else None)
        return cells if cells[0] else None

    def _misread(self, cells: Cells) -> int:
        return sum(
            (text := cells[i]) is not None and read_value(self.columns[i].kind, text) is None for i in self._numeric
        )

    def _is_whole(self, cells: Cells) -> bool:
        """Whether no value is missing, and none has shifted into a text cell."""
        shapes = next((cells[i] for i, column in enumerate(self.columns) if column.kind is ValueKind.SHAPES), None)
        slid = _VALUE_AT_END.search(cells[0] or "") or (shapes and not _SHAPES.fullmatch(shapes))
        return not slid and all(cells[i] is not None for i in self._numeric)

    def _is_plausible(self, cells: Cells) -> bool:
        """Whether at least half of the numbers can be read, and one of them has a unit."""
        present = [i for i in self._numeric if cells[i] is not None]
        has_unit = any(
            self.columns[i].kind in _MEASURED and text != "0" and read_value(self.columns[i].kind, text)
            for i in present
            if (text := cells[i])
        )
        return has_unit and 2 * self._misread(cells) <= len(present)

    def _by_looks(self, row: str) -> Cells | None:
        """Split by the first sequence of values that matches the kinds of the columns, for any number of blanks."""
        words = " ".join(row.split())
        match = self._sequence.search(words)
        if not match or not match.start():
            return None
        first, last = self._numeric[0], self._numeric[-1]
        front = _split_front(row, words[: match.start() - 1], self.columns[:first])
        tail = split_tail(words[match.end() :].strip(), [column.kind for column in self.columns[last + 1 :]])
        return [*front, *match.groups(), *tail]

    @cached_property
    def _sequence(self) -> re.Pattern[str]:
        middle = self.columns[self._numeric[0] : self._numeric[-1] + 1]
        groups = (f"({PATTERNS.get(column.kind, _WORD)})" for column in middle)
        return re.compile(f"(?<= ){' '.join(groups)}(?!\\S)")


_FRAME = re.compile(r"\([0-9]+\): \S|^\s*(?:\.\.\.|<built-in |nn\.Module: )")
"""Pattern of a Python stack frame as the profiler prints it: `model.py(12): forward`."""

_OPERATOR = re.compile(r"\A\w+::\w+ [\w.]+")


def _split_front(row: str, words: str, columns: Sequence[PrintedColumn]) -> Cells:
    """The name, and the overload name if a wide gap or the format of an operator shows it."""
    if len(columns) == 1:
        return [words]
    parts = re.split(r"\s{2,}|\t", row.strip(), maxsplit=2)
    name, _, overload = words.partition(" ") if _OPERATOR.fullmatch(words) else (words, "", "")
    if len(parts) > 1 and f"{parts[0]} {parts[1]}" == words:
        name, overload = parts[0], parts[1]
    return [name, overload, *[None] * (len(columns) - 2)]


VALUE_UNREADABLE = "read-table-value-unreadable"
ROW_CUT = "read-table-row-cut"


def make_row(
    line: int, columns: Sequence[PrintedColumn], cells: Cells, frames: Sequence[str], losses: Counter[str]
) -> TableRow:
    """Build the row that the cells describe.

    Args:
        line: 1-based line of the document.
        columns: Columns of the table, `name` first.
        cells: Texts by column; None after the end of a short row.
        frames: Further stack frames.
        losses: Counts cells that could not be read and rows that end early; updated in place.
    """
    fields: dict[str, Any] = {}
    resolution: dict[str, int] = {}
    for column, text in zip(columns, _unswapped(columns, cells), strict=True):
        if column.id is None or text is None:
            continue
        if column.kind in _WORDS:
            fields |= _words(column.kind, column.id, text, frames)
            continue
        value = read_value(column.kind, text, column.scale)
        if value is None:
            losses[VALUE_UNREADABLE] += 1
        else:
            fields[column.id] = value.value
            if value.step is not None:
                resolution[column.id] = value.step
        if column.id == "cpu_total_share" and text == "0":
            fields["is_async"] = True
    if any(text is None for column, text in zip(columns, cells, strict=True) if column.kind in NUMERIC):
        losses[ROW_CUT] += 1
    if not any(column.id == "calls" for column in columns):
        fields |= _calls(fields, resolution)
    return TableRow(
        line=line,
        name_truncated=fields["name"].endswith("..."),
        resolution=resolution,
        **fields,
    )


def _calls(fields: Mapping[str, Any], resolution: Mapping[str, int]) -> dict[str, int]:
    """The number of calls where it is cut off: the only whole number that fits the total and the mean of a call."""
    for total, mean in (("cpu_total_ns", "cpu_avg_ns"), ("device_total_ns", "device_avg_ns")):
        whole, each = fields.get(total), fields.get(mean)
        if not whole or not each or total not in resolution or mean not in resolution:
            continue
        half, half_each = resolution[total] / 2, resolution[mean] / 2
        low, high = (whole - half) / (each + half_each), (whole + half) / max(each - half_each, 1e-9)
        if (calls := round(whole / each)) and calls - 1 < low <= calls <= high < calls + 1:
            return {"calls": calls}
    return {}


_WORDS = (ValueKind.TEXT, ValueKind.SHAPES, ValueKind.SOURCE)
"""Kinds of cells that are no numbers."""


def _words(kind: ValueKind, column: str, text: str, frames: Sequence[str]) -> dict[str, Any]:
    """The fields that a cell with words fills."""
    if kind is ValueKind.SHAPES:
        return {column: text or None, "shapes_truncated": shapes_are_cut(text)}
    if kind is ValueKind.SOURCE:
        return {column: (text, *frames) if text else tuple(frames)}
    return {column: text}


def _unswapped(columns: Sequence[PrintedColumn], cells: Cells) -> Cells:
    """Swap source and FLOPs back, because torch prints their values and their names in different orders."""
    places = {column.kind: i for i, column in enumerate(columns)}
    source, flops = places.get(ValueKind.SOURCE), places.get(ValueKind.FLOPS)
    if source is None or flops is None:
        return cells
    looks_like_flops = cells[source] and read_value(ValueKind.FLOPS, cells[source] or "")
    if not looks_like_flops or (cells[flops] and read_value(ValueKind.FLOPS, cells[flops] or "")):
        return cells
    cells = cells.copy()
    cells[source], cells[flops] = cells[flops] or "", cells[source]
    return cells
