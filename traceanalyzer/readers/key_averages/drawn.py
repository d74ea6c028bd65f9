"""Gives tables that a document draws in its own way the form in which torch prints them.

In Markdown, cells stand between bars (`| aten::mm | 12.3% |`), and some programs draw boxes (`+----+`). Simple tables
of reStructuredText have equals signs (`====  ====`) where torch has dashes. Shortened tables often
lack these lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from traceanalyzer.readers.key_averages.header import parse_header
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.values import PATTERNS, ValueKind

_BAR = re.compile(r"(?<!\\)[|│]")
_FEWEST = 4
"""Bars of the shortest header that is worth a look; cheap to count."""
_OF_RULES = re.compile(r"[-+=|:│├┼┤─┌┬┐└┴┘ \t]*")
_DASHES = re.compile(r"[-=─]{2}")
_EQUALS = re.compile(r"(=+)(?:[ \t]+=+)+[ \t]*")
_TIME = re.compile(PATTERNS[ValueKind.TIME])
_MARKUP = "`* \t"
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def redraw(lines: Lines) -> Lines:
    """The same lines, with drawn tables as torch prints them."""
    changed: dict[int, tuple[str, ...]] = {}
    end = 0
    for index in range(len(lines)):
        if index < end or "Name" not in lines.raw[index]:
            continue
        if lines.raw[index].count("|") + lines.raw[index].count("│") >= _FEWEST:
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
    names = _cells(lines[header])
    if parse_header("  ".join(names)) is None:
        return {}
    rows = {header: names}
    for index in range(header - 1, start - 1, -1):
        if not _is_rule(lines[index]):
            break
        rows[index] = []
    for index in range(header + 1, len(lines)):
        line = lines[index]
        if not _is_rule(line) and len(_BAR.findall(line)) < _FEWEST:
            break
        rows[index] = [] if _is_rule(line) else _totals(lines.raw[index]) or _cells(line)
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


def _cells(line: str) -> list[str]:
    """Texts between the bars, without what Markdown puts around them."""
    body = line[line.index("|" if "|" in line else "│") :].rstrip()
    texts = [text.strip(_MARKUP).replace("\\", "") for text in _BAR.split(body)[1:]]
    return texts if texts and texts[-1] else texts[:-1]


def _totals(raw: str) -> list[str]:
    """The totals of a last row that has all names in one cell and all times in the next, as one text; else nothing."""
    if " time total:" not in raw or not _BREAK.search(raw):
        return []
    cells = [[text.strip(_MARKUP) for text in _BREAK.split(cell)] for cell in _BAR.split(raw)]
    at = next(place for place, texts in enumerate(cells) if " time total:" in texts[0])
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
    found = parse_header(line)
    if found is None or below is None or "--" in lines[below] or not line.strip().startswith("Name"):
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
