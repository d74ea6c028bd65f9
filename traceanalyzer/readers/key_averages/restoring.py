"""Gives tables the form in which torch printed them: unwraps, redraws, and adds headers.

Lines that a terminal or a page wrapped at equal width are joined. In Markdown, cells stand between bars
(`| aten::mm | 12.3% |`), some programs draw boxes (`+----+`), and simple tables of reStructuredText have equals signs
(`====  ====`) where torch has dashes; shortened tables often lack these lines.

Rows that were copied without a header get it where units and number of columns leave no choice. The layouts are those
of `_build_table` in torch/autograd/profiler_util.py, and of `build_table` in torch/autograd/profiler.py before. No two
have the same units in the same order, and in every row the mean time times the number of calls must be the total time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from traceanalyzer.readers.key_averages.header import parse_header
from traceanalyzer.readers.key_averages.lines import Lines, clean, shown
from traceanalyzer.readers.key_averages.values import PATTERNS, Value, ValueKind, read_value

_MOST_PIECES = 20


def unwrap(lines: Lines) -> Lines:
    """Join each row of wrapped tables into one line; other lines are unchanged."""
    joined: list[str] = []
    numbers: list[int] = []
    done = index = 0
    while index < len(lines):
        dashes = _count(lines.raw, index, dashes=True) if "--" in lines.raw[index] else 0
        if dashes > 1 and (wrapped := _wrapped_at(lines.raw, index, dashes)):
            joined += lines.raw[done : wrapped.top]
            numbers += [lines.number(at) for at in range(done, wrapped.top)]
            for start, done in wrapped.rows():
                joined.append(wrapped.join(start, done))
                numbers.append(lines.number(start))
        index = max(index + dashes, index + 1, done)
    if not done:
        return lines
    return Lines(joined + list(lines.raw[done:]), numbers + [lines.number(at) for at in range(done, len(lines))])


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """A wrapped table that begins at the line `top`."""

    raw: Sequence[str]
    top: int
    pieces: int
    """Number of wrapped lines of the dashes, which is the least number of a row."""
    lower: int
    """Index of the first line of dashes below the header."""
    width: int
    """Number of characters of a wrapped line."""

    def rows(self) -> list[tuple[int, int]]:
        """First line and end of each row, including the head, up to the closing dashes or a line that is too wide."""
        rows = [(self.top, self.top + self.pieces), (self.top + self.pieces, self.lower)]
        start = self.lower
        is_full = len(clean(self.raw[self.top + self.pieces - 1])) == self.width
        while start + self.pieces <= len(self.raw):
            stop = start + self.pieces
            while not is_full and stop < len(self.raw) and len(clean(self.raw[stop - 1])) == self.width:
                stop += 1  # a stack frame wider than its column; not detected if it ends at the wrap width
            if any(len(clean(line)) > self.width for line in self.raw[start:stop]):
                break
            rows.append((start, stop))
            if start > self.lower and self.join(start, stop) == self.join(*rows[0]):
                break
            start = stop
        return rows

    def join(self, start: int, stop: int) -> str:
        """Join the wrapped lines of one row."""
        return "".join(clean(line).ljust(self.width) for line in self.raw[start:stop]).rstrip()


def _wrapped_at(raw: Sequence[str], start: int, upper: int) -> _Wrapped | None:
    """The wrapped table whose upper dashes end the `upper` lines from `start` on, or None."""
    bottom = start + upper
    blank = int(bottom < len(raw) and not clean(raw[bottom]).strip())  # the two blanks at the end of a line, wrapped
    lower = bottom + blank + _count(raw, bottom + blank, dashes=False)
    dashes = _count(raw, lower, dashes=True)
    top, pieces = bottom - dashes, dashes + blank
    if not 2 <= dashes <= min(upper, _MOST_PIECES):
        return None
    width = max(len(clean(line)) for line in raw[top:lower])
    wrapped = _Wrapped(raw, top, pieces, lower, width)
    same = wrapped.join(top, top + pieces) == wrapped.join(lower, lower + pieces)
    return wrapped if same and parse_header(wrapped.join(top + pieces, lower)) else None


def _count(raw: Sequence[str], start: int, *, dashes: bool) -> int:
    """Number of consecutive lines from `start` that are (or are not) only dashes; stops above `_MOST_PIECES`."""
    count = 0
    while count <= _MOST_PIECES and start + count < len(raw) and _only_dashes(raw[start + count]) is dashes:
        count += 1
    return count


def _only_dashes(line: str) -> bool:
    return "-" in line and not clean(line).strip("- \t")


_BAR = re.compile(r"(?<!\\)[|│]")
_FEWEST_BARS = 2
"""Bars of the shortest header that is worth a look; cheap to count."""
_OF_RULES = re.compile(r"[-+=|:│├┼┤─┌┬┐└┴┘ \t]*")
_DASHES = re.compile(r"[-=─]{2}|:-|-:")
_EQUALS = re.compile(r"(=+)(?:[ \t]+=+)+[ \t]*")
_TIME = re.compile(PATTERNS[ValueKind.TIME])
_MARKUP = "`* \t"
_QUOTED = "> \t*`"
"""What mails, quotations and bold type put before the first cell."""
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def redraw(lines: Lines) -> Lines:
    """The same lines, with drawn tables as torch prints them."""
    changed: dict[int, tuple[str, ...]] = {}
    end = 0
    for index in range(len(lines)):
        if index < end or "Name" not in lines.raw[index]:
            continue
        if lines.raw[index].count("|") + lines.raw[index].count("│") >= _FEWEST_BARS:
            found = _between_bars(lines, index, end)
        else:
            found = _between_equals(lines, index, end)
        if found:
            changed.update((at, (text,)) for at, text in found.items())
            end = max(found) + 1
        elif is_bare := _without_rules(lines, index):
            changed[index] = is_bare
    return lines.replaced(changed) if changed else lines


def _between_bars(lines: Lines, header: int, start: int) -> dict[int, str]:
    """The lines of a table whose header stands between bars; none if it is no profiler's."""
    is_open = lines[header].lstrip(_QUOTED).startswith("Name")
    names = _cells(lines[header], is_open=is_open)
    if parse_header("  ".join(names)) is None:
        return {}
    rows = {header: names}
    for index in range(header - 1, start - 1, -1):
        if not _is_rule(lines[index]):
            break
        rows[index] = []
    for index in range(header + 1, len(lines)):
        line = lines[index]
        if not _is_rule(line) and len(_BAR.findall(line)) < _FEWEST_BARS:
            break
        rows[index] = [] if _is_rule(line) else _totals(shown(lines.raw[index])) or _cells(line, is_open=is_open)
    has_values = any(_TIME.fullmatch(cell) for cells in rows.values() for cell in cells)
    return dict(_laid_out(rows, len(names))) if has_values else {}


def _laid_out(rows: dict[int, list[str]], columns: int) -> Iterator[tuple[int, str]]:
    """Lines with the cells of a column at one place; an empty list is a rule, another number of cells is not moved."""
    whole = [cells for cells in rows.values() if len(cells) == columns]
    widths = [max(3, *map(len, column)) for column in zip(*whole, strict=True)]
    for index, cells in rows.items():
        if not cells:
            yield index, "  ".join("-" * width for width in widths)
        elif len(cells) == columns:
            yield index, "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        else:
            yield index, "  ".join(cells)


def _cells(line: str, *, is_open: bool) -> list[str]:
    """Texts between the bars, without what Markdown puts around them; none of a line without bars.

    Args:
        line: The line.
        is_open: Whether no bar stands before the first cell.
    """
    texts = [text.strip(_MARKUP).replace("\\", "") for text in _BAR.split(line.rstrip().lstrip(_QUOTED))]
    texts = texts if is_open and len(texts) > 1 else texts[1:]
    return texts if texts and texts[-1] else texts[:-1]


def _totals(line: str) -> list[str]:
    """The totals of a last row that has all names in one cell and all times in the next, as one text; else nothing."""
    if " time total:" not in line or not _BREAK.search(line):
        return []
    cells = [[text.strip(_MARKUP) for text in _BREAK.split(cell)] for cell in _BAR.split(line)]
    at = next((place for place, texts in enumerate(cells) if " time total:" in texts[0]), None)
    if at is None:
        return []
    pairs = zip(cells[at], cells[at + 1] if at + 1 < len(cells) else (), strict=False)
    return ["  ".join(f"{name} {time}" for name, time in pairs)]


def _is_rule(line: str) -> bool:
    return _DASHES.search(line) is not None and _OF_RULES.fullmatch(line.lstrip(">#* \t")) is not None


def _between_equals(lines: Lines, header: int, start: int) -> dict[int, str]:
    """Rules of equals signs above and below a header, and the one that is the same at the end, as dashes."""
    above = _equals(lines, header - 1) if header > start else None
    if above is None or _equals(lines, header + 1) != above or parse_header(lines[header]) is None:
        return {}
    rules = [header - 1, header + 1]
    for index in range(header + 2, len(lines)):
        if not lines[index].strip():
            break
        if _equals(lines, index) == above:
            rules.append(index)
            break
    return {index: lines[index].replace("=", "-") for index in rules}


def _without_rules(lines: Lines, header: int) -> tuple[str, ...]:
    """The header of a table without lines of dashes, and such a line; nothing if no values stand below it."""
    line, below = lines[header], lines.filled(header + 1)
    if below is None or "--" in lines[below] or not line.strip().startswith("Name"):
        return ()
    found = parse_header(line)
    if found is None:
        return ()
    values = [word for word in lines[below].split() if _TIME.fullmatch(word)]
    is_own = len(found.known) == len(found.columns)
    return (line, "  ".join("-" * (column.end - column.start) for column in found.columns)) if values and is_own else ()


def _equals(lines: Lines | Sequence[str], index: int) -> str | None:
    """The runs of equals signs of a line, without what stands before them; None for other lines."""
    if index >= len(lines) or "==" not in lines[index]:
        return None
    text = lines[index][lines[index].index("=") :].rstrip()
    return text if _EQUALS.fullmatch(text) else None


_FEWEST_ROWS = 2
"""Fewer rows may have the form of a layout by chance (own choice)."""
_REACH = 5
"""Most other lines between two rows, such as output of another process."""
_CPU = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg")
_OLD_CPU = ("Self CPU total %", "Self CPU total", "CPU total %", "CPU total", "CPU time avg")
_GPU = ("Self GPU", "Self GPU %", "GPU total", "GPU time avg")
_OLD_GPU = ("GPU total %", "GPU total", "GPU time avg")
_CPU_MEM, _GPU_MEM = ("CPU Mem", "Self CPU Mem"), ("GPU Mem", "Self GPU Mem")
_LAYOUTS = (
    (*_CPU, *_GPU, *_CPU_MEM, *_GPU_MEM, "# of Calls"),
    (*_OLD_CPU, *_OLD_GPU, *_CPU_MEM, *_GPU_MEM, "Number of Calls"),
    (*_CPU, *_GPU, "# of Calls"),
    (*_OLD_CPU, *_OLD_GPU, "Number of Calls"),
    (*_CPU, *_CPU_MEM, "# of Calls"),
    (*_CPU, "# of Calls"),
    ("CPU time", "GPU time", "Calls", "CPU total", "GPU total"),
)
"""Columns after the name, the most first; torch up to 1.0 has the last one. Rows do not tell which device they are of,
so it is called GPU."""
_PRODUCTS = (
    ("CPU time avg", "CPU total"),
    ("GPU time avg", "GPU total"),
    ("CPU time", "CPU total"),
    ("GPU time", "GPU total"),
)
"""Columns with a mean time and with the total time, which is it times the number of calls."""
_PRINTED_TIME = re.compile(r"-?[0-9]+\.[0-9]{3}(?:us|µs|μs|ms|s)")
"""Times as torch prints them."""
_TIMES = 2
"""Every row has so many and more."""
_SIZE_UNIT = re.compile(r"(?<=[0-9]) (?=[KMG]?b(?!\S))")
_KINDS = (ValueKind.SHARE, ValueKind.TIME, ValueKind.BYTES, ValueKind.COUNT)
_VALUE = re.compile("|".join(f"(?:{PATTERNS[kind]})" for kind in _KINDS))


def restore(lines: Lines) -> tuple[Lines, list[int]]:
    """The same lines with a header above rows that have none, and the numbers of the lines of these rows.

    Rows whose columns are not certain stay as they are.
    """
    changed: dict[int, tuple[str, ...]] = {}
    for rows in _groups(lines):
        if layout := _layout(lines, rows):
            names = ("Name", *layout)
            changed[rows[0]] = ("  ".join(names), "  ".join("-" * max(3, len(n)) for n in names), lines[rows[0]])
    return (lines.replaced(changed) if changed else lines), [lines.number(index) for index in changed]


def _groups(lines: Lines) -> Iterator[list[int]]:
    """Indices of lines that look like rows, near each other."""
    rows: list[int] = []
    for index, raw in enumerate(lines.raw):
        if not ("us" in raw or "ms" in raw) or not _looks_like_row(lines[index]):
            continue
        if rows and index - rows[-1] > _REACH:
            if len(rows) >= _FEWEST_ROWS:
                yield rows
            rows = []
        rows.append(index)
    if len(rows) >= _FEWEST_ROWS:
        yield rows


def _looks_like_row(line: str) -> bool:
    """Whether a line ends with at least as many values as the shortest layout has, some of them times of torch."""
    words = _values(line)
    at_end = list(takewhile(_VALUE.fullmatch, reversed(words)))
    return (
        len(words) > len(at_end) >= len(_LAYOUTS[-1]) and sum(map(bool, map(_PRINTED_TIME.fullmatch, at_end))) >= _TIMES
    )


def _values(line: str) -> list[str]:
    """The words of a line without shapes, each size as one word."""
    return _SIZE_UNIT.sub("", line.partition(" [")[0]).split()


def _layout(lines: Lines, rows: list[int]) -> tuple[str, ...] | None:
    """The columns of some rows, without their names; None if not all rows have the same, or they do not fit."""
    found = {_columns(lines[index]) for index in rows}
    return found.pop() if len(found) == 1 else None


def _columns(line: str) -> tuple[str, ...] | None:
    """The columns of a row; None if its values are of no layout, or contradict each other."""
    words = _values(line)
    for layout in _LAYOUTS:
        before, own = words[: -len(layout)], words[-len(layout) :]
        if before and not _VALUE.fullmatch(before[-1]) and _fits(layout, own):
            return (*layout, "Input Shapes") if " [" in line else layout
    return None


def _fits(layout: tuple[str, ...], words: list[str]) -> bool:
    """Whether values are of the kinds of the columns, and total times are the mean times of all calls."""
    values = {name: read_value(_kind(name), word) for name, word in zip(layout, words, strict=True)}
    if not all(values.values()):
        return False
    calls = next(value for name, value in values.items() if name.endswith("Calls"))
    return all(_is_product(values.get(mean), calls, values.get(total)) for mean, total in _PRODUCTS)


def _is_product(mean: Value | None, calls: Value | None, total: Value | None) -> bool:
    """Whether a total is a mean times a number, as far as digits are printed; also if there are no such columns."""
    if mean is None or calls is None or total is None or mean.value is None or total.value is None:
        return True
    number = calls.value or 0
    return abs(total.value - number * mean.value) <= ((total.step or 1) + number * (mean.step or 1)) / 2


def _kind(name: str) -> ValueKind:
    """What the values of a column are."""
    if name.endswith("%"):
        return ValueKind.SHARE
    if name.endswith("Mem"):
        return ValueKind.BYTES
    return ValueKind.COUNT if name.endswith("Calls") else ValueKind.TIME
