"""Reads the tables of `key_averages().table()` in any text: logs, notes, articles, notebooks.

The format: `_build_table` in `torch/autograd/profiler_util.py`, and `build_table` in `torch/autograd/profiler.py` up to
torch 1.0, whose tables have no times without what an operator calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from msgspec.structs import replace

from traceanalyzer.readers.key_averages.cells import Cells, PrintedGrid, make_row
from traceanalyzer.readers.key_averages.header import TableOpening, next_opening, opening_at, parse_header
from traceanalyzer.readers.key_averages.lines import Dashes, Lines, decode, find_dashes
from traceanalyzer.readers.key_averages.quoted import read_quoted
from traceanalyzer.readers.key_averages.restoring import redraw, restore, unwrap
from traceanalyzer.readers.key_averages.splitting import unescape, unmix
from traceanalyzer.readers.key_averages.surroundings import Headings, is_total, read_loops, read_rates, read_totals
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow
from traceanalyzer.trace.model import Loss

__all__ = ["decode", "lines_of", "read", "sniff"]

TABLE_CUT = "read-table-cut"
TABLE_EMPTY = "read-table-empty"
COLUMN_UNKNOWN = "read-table-column-unknown"
ROW_UNREADABLE = "read-table-row-unreadable"
TOTALS_MISSING = "read-table-totals-missing"

_MOST_OTHER_LINES = 5
"""Most lines that are not rows between two rows, such as output of another process; more of them end the table."""


def read_tables(
    lines: Lines, opening: TableOpening | None
) -> tuple[list[ProfilerTable], list[Loss], list[tuple[int, int]]]:
    """All tables of a document, losses of tables without readable rows, and first line and end of each table.

    Args:
        lines: The document.
        opening: Where its first table begins.
    """
    tables: list[ProfilerTable] = []
    lost: list[Loss] = []
    spans: list[tuple[int, int]] = []
    headings = Headings()
    position = 0
    while opening is not None:
        headings.scan(lines, position, opening)
        body = _Body(lines, opening)
        body.read()
        table = _table(lines, opening, body, headings)
        if table.rows or table.totals.resolution:
            tables.append(table)
            spans.append((opening.top, body.end))
        else:
            lost.append(Loss(TABLE_EMPTY, 1, {"line": table.line}))
        position = body.end
        opening = next_opening(lines, position)
    return tables, lost, spans


def _table(lines: Lines, opening: TableOpening, body: _Body, headings: Headings) -> ProfilerTable:
    columns = opening.header.known
    totals, device, body.end = read_totals(lines, body.end, has_self_device="self_device_ns" in columns)
    rows = body.rows()
    complete = body.closed or bool(totals.resolution)
    losses = body.losses + Counter({COLUMN_UNKNOWN: len(opening.header.columns) - len(columns)})
    if not complete:
        losses[TABLE_CUT] += 1
    elif totals.self_cpu_ns is None:
        losses[TOTALS_MISSING] += 1
    line = lines.number(opening.header_at)
    return ProfilerTable(
        title=headings.title,
        section=headings.section,
        line=line,
        columns=columns,
        device=opening.header.device or device,
        rows=rows,
        totals=totals,
        top_level_only=headings.top_level_only,
        single_calls=headings.single_calls,
        has_plain_names=opening.header.is_plain,
        complete=complete,
        losses=tuple(Loss(loss, losses[loss], {"line": line}) for loss in sorted(losses) if losses[loss]),
    )


class _Body:
    """Reads the rows below the head of a table."""

    def __init__(self, lines: Lines, opening: TableOpening) -> None:
        self.losses: Counter[str] = Counter()
        self.closed = False
        self.end = opening.body
        """First line after the table."""
        self._lines, self._opening = lines, opening
        self._grid = PrintedGrid(opening.header, opening.dashes.runs)
        self._has_source = "source_location" in opening.header.known
        self._rows: list[tuple[int, Cells, list[str]]] = []

    def rows(self) -> tuple[TableRow, ...]:
        """The rows that were read; their unreadable cells are counted in `losses`."""
        columns = self._grid.columns
        return tuple(
            make_row(self._lines.number(index), columns, cells, frames, self.losses)
            for index, cells, frames in self._rows
        )

    def read(self) -> None:
        """Read up to the closing dashes, the totals, the next table, or too many lines that are not rows."""
        other_lines = 0
        for index in range(self._opening.body, len(self._lines)):
            line = self._lines[index]
            if not (text := self._opening.dashes.strip(line)).strip():
                continue
            if dashes := find_dashes(line):
                if opening_at(self._lines, index, len(self._lines)):
                    return
                if self._closes(dashes, other_lines) or self._is_cut_close(dashes, index, text):
                    self.closed = True
                    self._accept(index, other_lines)
                    return
            if is_total(line):
                self._accept(index - 1, other_lines)
                return
            if self._take(index, text):
                self._accept(index, other_lines)
                other_lines = 0
            elif other_lines == _MOST_OTHER_LINES or self._is_beyond(line):
                return
            else:
                other_lines += 1

    @staticmethod
    def _is_beyond(line: str) -> bool:
        """Whether a line ends the table: a header without upper dashes, or the end of a code block."""
        return line.lstrip().startswith("```") or parse_header(line) is not None

    def _accept(self, index: int, other_lines: int) -> None:
        self.end = index + 1
        self.losses[ROW_UNREADABLE] += other_lines

    def _closes(self, dashes: Dashes, other_lines: int) -> bool:
        """Whether dashes close this table. After lines that are not rows, only dashes equal to the table's own do."""
        return dashes.runs == self._opening.dashes.runs or (len(dashes.runs) > 1 and not other_lines)

    def _is_cut_close(self, dashes: Dashes, index: int, text: str) -> bool:
        """Whether the document ends within the closing dashes."""
        ours, count = self._opening.dashes.runs, len(dashes.runs)
        is_last = index == len(self._lines) - 1 and not text.strip("- \t") and count <= len(ours)
        return is_last and dashes.runs[:-1] == ours[: count - 1] and dashes.runs[-1][1] <= ours[count - 1][1]

    def _take(self, index: int, text: str) -> bool:
        """Add a row, or a stack frame of the previous row. Returns False if the line is neither."""
        if cells := self._grid.split(text):
            if index == len(self._lines) - 1:
                self._grid.drop_cut_cell(text, cells)
            self._rows.append((index, cells, []))
        elif self._has_source and self._rows and (frame := self._grid.source_of_continuation(text)):
            self._rows[-1][2].append(frame)
        else:
            return False
        return True


QUOTED = "read-table-quoted"
HEADER_MISSING = "read-table-header-missing"
MIXED = "read-table-mixed"
_BESIDE = 3
"""Most lines from a header to the same one of another process (own choice: rules of dashes stand between them)."""


def sniff(text: str | bytes) -> bool:
    """Whether a profiler table begins in a text, or in the head of a file.

    Tables are often at the end of a long text, so pass all of it if possible; the search takes linear time.
    """
    _, _, first = _lines(decode(text) if isinstance(text, bytes) else text)
    return first is not None


def read(text: str, name: str, size_bytes: int | None) -> TableDocument:
    """Read all profiler tables of a text. A text without tables is not an error.

    Args:
        text: The document; `decode` makes it from bytes.
        name: Name of the document in the report.
        size_bytes: Size of the file, None if unknown.

    Returns:
        The tables in the order of the text, and the losses.
    """
    lines, restored, opening = _lines(text)
    tables, losses, spans = read_tables(lines, opening)
    mixed = None if tables else _mixed_header(lines)
    if mixed is not None:
        losses = [Loss(MIXED, 1, {"line": mixed})]
    elif not tables and (quoted := read_quoted(lines)):
        tables, spans = [quoted], [(0, 0)]
        losses = [Loss(QUOTED, len(quoted.rows), {"line": quoted.line})]
    losses += [Loss(HEADER_MISSING, 1, {"line": number}) for number in restored]
    tables = [replace(table, loops=loops) for table, loops in zip(tables, read_loops(lines, spans), strict=True)]
    rates, losses_of_rates = read_rates(lines, spans)
    losses += losses_of_rates
    for table in tables:
        losses += table.losses
    return TableDocument(
        name=name,
        size_bytes=size_bytes,
        tables=tuple(tables),
        losses=_by_kind(losses),
        rates=rates,
    )


def _mixed_header(lines: Lines) -> int | None:
    """The line of the first header that comes again at once, because several processes print a table at a time."""
    headers = [at for at in range(len(lines)) if "CPU" in lines[at] and parse_header(lines[at]) is not None]
    again = (
        lines.number(first)
        for first, second in pairwise(headers)
        if second - first <= _BESIDE and lines[first].split() == lines[second].split()
    )
    return next(again, None)


def _by_kind(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """One loss for each kind, with the number of all, at the first line."""
    kinds: dict[str, Loss] = {}
    for loss in sorted(losses, key=lambda loss: loss.params["line"]):
        first = kinds.get(loss.id)
        kinds[loss.id] = loss if first is None else replace(first, count=first.count + loss.count)
    return tuple(kinds[kind] for kind in sorted(kinds))


def lines_of(text: str) -> Lines:
    """The lines of a text as they were printed: without escapes, wraps, and the labels of several ranks."""
    return unwrap(unmix(unescape(Lines.of(text))))


def _lines(text: str) -> tuple[Lines, list[int], TableOpening | None]:
    """The lines of a text, where rows stand to which a header was given, and the first table.

    Drawn tables are those of the profiler only where no table stands as it was printed: beside printed tables they are
    somebody's summary of them. Rows without a header count only where there is no other table.
    """
    lines = lines_of(text)
    first = next_opening(lines, 0)
    if first is not None:
        return lines, [], first
    drawn = redraw(lines)
    first = None if drawn is lines else next_opening(drawn, 0)
    if first is not None:
        return drawn, [], first
    restored, numbers = restore(lines)
    return restored, numbers, next_opening(restored, 0) if numbers else None
