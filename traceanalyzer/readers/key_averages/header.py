"""Parses the header of a table: the columns that it names, by the names of every release and device.

Names are searched in order, not at fixed positions, because a name wider than its column shifts the others.

Tables begin at a line of dashes beside a header: dashes are searched, because few lines have them, and the header
distinguishes a profiler table from a list of packages, a psql result or a horizontal rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import lru_cache

from traceanalyzer.readers.key_averages.lines import REACH, Dashes, Lines, find_dashes
from traceanalyzer.readers.key_averages.values import ValueKind

_LONGEST = 20_000
"""Most characters of a header; longer lines are data."""

_DEVICE = r"(?<!\w)(?!(?:CPU|Self|Name|Total)\b)(?P<device>\w+)"

_WORDS: tuple[tuple[str, str, ValueKind], ...] = (
    (r"Name", "name", ValueKind.TEXT),
    (r"Overload Name", "overload_name", ValueKind.TEXT),
    (r"Self CPU(?: total)? %", "self_cpu_share", ValueKind.SHARE),
    (r"Self CPU Mem", "self_cpu_mem_bytes", ValueKind.BYTES),
    (r"Self CPU(?: total)?", "self_cpu_ns", ValueKind.TIME),
    (r"CPU total %", "cpu_total_share", ValueKind.SHARE),
    (r"CPU [tT]otal", "cpu_total_ns", ValueKind.TIME),
    (r"CPU (?:time(?: avg)?|avg)", "cpu_avg_ns", ValueKind.TIME),
    (r"CPU Mem", "cpu_mem_bytes", ValueKind.BYTES),
    (rf"Self {_DEVICE}(?: total)? %", "self_device_share", ValueKind.SHARE),
    (rf"Self {_DEVICE} Mem", "self_device_mem_bytes", ValueKind.BYTES),
    (rf"Self {_DEVICE}(?: total)?", "self_device_ns", ValueKind.TIME),
    (rf"{_DEVICE} total %", "device_total_share", ValueKind.SHARE),
    (rf"{_DEVICE} [tT]otal", "device_total_ns", ValueKind.TIME),
    (rf"{_DEVICE} (?:time(?: avg)?|avg)", "device_avg_ns", ValueKind.TIME),
    (rf"{_DEVICE} Mem", "device_mem_bytes", ValueKind.BYTES),
    (r"(?:# of |# |Number of )?[cC]alls", "calls", ValueKind.COUNT),
    (r"Node ID", "node_id", ValueKind.NODE),
    (r"Input Shapes?", "input_shapes", ValueKind.SHAPES),
    (r"Source Location", "source_location", ValueKind.SOURCE),
    (r"(?P<scale>[KMGTP]?)FLOP[sS](?:/s)", "flops_per_second", ValueKind.FLOPS),
    (r"Total (?P<scale>[KMGTP]?)FLOP[sS]", "flops", ValueKind.FLOPS),
    (r"(?P<scale>[KMGTP]?)FLOPS", "flops_per_second", ValueKind.FLOPS),
    (r"(?P<scale>[KMGTP]?)FLOPs", "flops", ValueKind.FLOPS),
)
_VOCABULARY = [(re.compile(rf"{pattern}(?!\S)"), column, kind) for pattern, column, kind in _WORDS]

_OLDEST = ("name", "cpu_avg_ns", "device_avg_ns", "calls", "cpu_total_ns", "device_total_ns")
"""Columns of torch up to 1.0."""

_MEASURED = ("otal", "avg", "time", "Mem", "Self")
"""Words, of which every name of a column with times or sizes has one."""
_NAME = re.compile(r"(?<!\S)Name(?!\S)")
_CELL = re.compile(r"\S+(?: \S+)*")
"""Words separated by one blank; torch puts two blanks between columns."""
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """A column of the header; `id` is None for columns that no known release prints."""

    id: str | None
    kind: ValueKind
    start: int
    end: int
    scale: int = 0
    """Power of ten of its values, such as 9 for GFLOPs."""


@dataclass(frozen=True, slots=True)
class Header:
    """All columns of a table in print order, `name` first."""

    columns: tuple[PrintedColumn, ...]
    device: str | None
    is_plain: bool = False
    """The words are those of torch before 1.7, when names of operators had no namespace."""

    @property
    def known(self) -> tuple[str, ...]:
        """Ids of the known columns."""
        return tuple(column.id for column in self.columns if column.id)


def parse_header(line: str) -> Header | None:
    """Parse a line as a header, or return None; text before `Name` is ignored."""
    if "Name" not in line or len(line) > _LONGEST or not (name := _NAME.search(line)):
        return None
    return _parsed(line, name.start())


@lru_cache(maxsize=128)  # a log may print the same words again and again
def _parsed(line: str, start: int) -> Header | None:
    """A line as a header, from the word `Name` on."""
    if not any(word in line for word in _MEASURED):
        return None
    header = _Columns()
    for cell in _CELL.finditer(line, start):
        header.add(line, *cell.span())
    kinds = [column.kind for column in header.found if column.id]
    measured = sum(kind in {ValueKind.TIME, ValueKind.BYTES} for kind in kinds)
    # Lists of packages have Name and Version; Markdown tables have as many bars as names.
    is_profile = measured and len(kinds) >= 3 and 2 * len(kinds) > len(header.found)
    is_plain = "Self CPU total" in line or tuple(column.id for column in header.found) == _OLDEST
    return Header(tuple(header.found), header.device, is_plain) if is_profile else None


class _Columns:
    """Collects columns: each id only once, and all for one device."""

    def __init__(self) -> None:
        self.found: list[PrintedColumn] = []
        self.device: str | None = None

    def add(self, line: str, start: int, end: int) -> None:
        """Add the columns of one cell: a known column, several whose blanks were collapsed, or an unknown column."""
        columns = list(self._columns(line, start, end))
        if self.found and any(column.id is None for column in columns):
            columns = [PrintedColumn(None, ValueKind.UNKNOWN, start, end)]
        self.found += columns

    def _columns(self, line: str, start: int, end: int) -> Iterator[PrintedColumn]:
        seen: set[str | None] = {column.id for column in self.found}
        while start < end:
            word = _WORD.match(line, start, end)
            stop = word.end() if word else end
            column = self._match(line, start, end, seen) or PrintedColumn(None, ValueKind.UNKNOWN, start, stop)
            seen.add(column.id)
            yield column
            start = column.end + 1

    def _match(self, line: str, start: int, end: int, seen: Set[str | None]) -> PrintedColumn | None:
        for pattern, column, kind in _VOCABULARY:
            if match := pattern.match(line, start, end):
                groups = match.groupdict()
                device = groups.get("device")
                if column in seen or (device and self.device not in {None, device}):
                    return None
                self.device = self.device or device
                scale = 3 * " KMGTP".index(groups.get("scale") or " ")
                return PrintedColumn(column, kind, *match.span(), scale)
        return None


@dataclass(frozen=True, slots=True)
class TableOpening:
    """The head of a table, as line indices."""

    top: int
    """First line: the upper dashes, or the header if they are missing."""
    header_at: int
    body: int
    """First line below the head."""
    dashes: Dashes
    """The dashes nearest to the rows."""
    header: Header


def next_opening(lines: Lines, start: int) -> TableOpening | None:
    """The first table that begins at or after the line `start`."""
    for i in range(start, len(lines)):
        if "--" in lines.raw[i] and _name_is_near(lines, i) and (opening := opening_at(lines, i, start)):
            return opening
    return None


def _name_is_near(lines: Lines, index: int) -> bool:
    """Whether `Name` is near a line; a cheap test for logs with many dashes."""
    return any("Name" in line for line in lines.raw[max(index - REACH, 0) : index + REACH + 1])


def opening_at(lines: Lines, index: int, start: int) -> TableOpening | None:
    """The table whose first line of dashes is at `index`, or None; its header is not searched before `start`."""
    dashes = table_dashes(lines[index])
    if not dashes:
        return None
    below = lines.filled(index + 1)
    if below is not None and "Name" in lines.raw[below]:
        second = lines.filled(below + 1)
        inner = table_dashes(lines[second]) if second is not None else None
        if header := parse_header((inner or dashes).strip(lines[below])):
            body = second if inner and second is not None else below
            return TableOpening(index, below, body + 1, inner or dashes, header)
    above = lines.filled(index - 1, -1)
    if above is not None and above >= start and (header := parse_header(dashes.strip(lines[above]))):
        return TableOpening(above, above, index + 1, dashes, header)
    return None


def table_dashes(line: str) -> Dashes | None:
    """The dashes of a line if they frame several columns, or None."""
    dashes = find_dashes(line)
    return dashes if dashes and len(dashes.runs) > 1 else None
