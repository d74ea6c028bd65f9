"""Finds what stands around tables: their titles, totals below them, printed rates, and loops of programs above.

A title is the nearest heading above, in all usual forms; a rate is a text such as `~4.9 samples/sec`, a total one such
as `Self CPU time total: 9.217s`, a loop one such as `for _ in range(100):`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from traceanalyzer.readers.key_averages.cells import with_points
from traceanalyzer.readers.key_averages.header import TableOpening
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.values import ValueKind, read_value
from traceanalyzer.trace.document import PrintedRate, TableTotals
from traceanalyzer.trace.model import Loss

_MARKS = "#=<-~*_P`\x1b"
"""First characters of lines that can be part of a heading; most lines of a log begin with none of them."""
_AROUND = "#<`=-["
"""First characters allowed in the lines beside a `# heading`; beside others it is a comment in a program."""
_QUOTE = "> |"
_BANNER = "=-~*#"
_UNDERLINE = frozenset("=-~*_#")
_TOP_LEVEL = "only display top-level ops statistics"
_SINGLE_CALLS = re.compile(r"top \d+ events sorted by")
"""What torch.utils.bottleneck prints above a table of single calls."""
_HEADER_LINES = 8
_LONGEST_TITLE = 200
_HTML_HEADING = re.compile("<h[1-6][ >]")
_TAG = re.compile(r"<[^<>]{0,200}>")


class Headings:
    """Follows the headings of a document from table to table.

    A title applies to the first table below it, a section to all tables below it.
    """

    def __init__(self) -> None:
        self.title: str | None = None
        self.section: str | None = None
        self.top_level_only = False
        self.single_calls = False
        self._in_code = False

    def scan(self, lines: Lines, start: int, opening: TableOpening) -> None:
        """Read the lines from `start` up to a table, and set title, section and scope for that table."""
        above = _Above(lines, start, opening)
        self.title = None
        for index in above.candidates():
            self._take(above, index)
        self.single_calls = any(_SINGLE_CALLS.search(above.text(index)) for index in above.near())
        header, self.top_level_only = _printed_header(above)
        self.title = header or self.title or self.section

    def _take(self, above: _Above, index: int) -> None:
        text = above.text(index)
        if text.startswith("```"):
            self._in_code = not self._in_code
        elif text.startswith("Profile stats for:"):  # printed by Lightning's PyTorchProfiler
            self.title = text
        elif text.startswith("<summary") or _HTML_HEADING.match(text):
            self.title = _plain(text) or self.title
        elif banner := _banner(text):
            self.title = banner
        elif _is_rule(text) or text == "</summary>":
            before = above.text(index - 1)
            self.title = (None if _is_rule(before) else _plain(before)) or self.title
        elif not self._in_code and (heading := _markdown(above, index)):
            self.title = self.section = heading


@dataclass(frozen=True, slots=True)
class _Above:
    """The lines above a table, without the prefix and suffix of the table's lines."""

    lines: Lines
    start: int
    opening: TableOpening

    def candidates(self) -> Iterator[int]:
        """Indices of lines that may be part of a heading."""
        has_prefix = bool(self.opening.dashes.before.strip())
        for index in range(self.start, self.opening.top):
            mark = self.text(index)[:1] if has_prefix else self.lines.raw[index].lstrip(f"{_QUOTE}\ufeff")[:1]
            if mark and mark in _MARKS:
                yield index

    def near(self) -> range:
        """Indices of the few lines right above the table."""
        return range(max(self.start, self.opening.top - _HEADER_LINES), self.opening.top)

    def text(self, index: int) -> str:
        """A line without prefix, quotation marks and blanks around it; empty before the first one."""
        return self.indented(index).strip().lstrip(_QUOTE) if index >= self.start else ""

    def indented(self, index: int) -> str:
        """A line without the prefix of the table's lines, but with its indentation."""
        line = self.lines[index]
        return self.opening.dashes.strip(line) if self.opening.dashes.before.strip() else line


def _markdown(above: _Above, index: int) -> str | None:
    """The text of a `# heading`, or None: if indented or between other lines, it is a comment in a program."""
    text = above.text(index)
    words = text.lstrip("#")
    if above.indented(index).startswith("    ") or len(text) - len(words) > 6 or not words[:1].isspace():
        return None
    neighbours = (above.text(index - 1), above.text(index + 1))
    return _plain(words) if all(not other or other[0] in _AROUND for other in neighbours) else None


def _printed_header(above: _Above) -> tuple[str | None, bool]:
    """The text of the `header` argument of torch, and whether torch notes that nested events are left out."""
    words: list[str] = []
    top_level_only = False
    top = above.opening.top
    is_double_spaced = not above.lines[top + 1].strip()
    for index in reversed(above.near()):
        text = above.text(index)
        if not text and is_double_spaced:
            continue
        if text.endswith(_TOP_LEVEL):
            top_level_only, words = True, []
        elif len(text) >= 20 and _is_rule(text) and text[0] == "=":
            if words or not top_level_only:
                return _plain(" ".join(reversed(words))), top_level_only
        elif not text or _is_rule(text) or _banner(text):
            break
        else:
            words.append(text)
    return None, top_level_only


def _is_rule(text: str) -> bool:
    """Whether a line is one repeated character, which underlines the line above."""
    return len(text) >= 3 and text[0] in _UNDERLINE and not text.strip(text[0])


def _banner(text: str) -> str | None:
    """The title in `==== title ====`."""
    mark = text[:1]
    if len(text) < 7 or mark not in _BANNER or not (text.startswith(3 * mark) and text.endswith(3 * mark)):
        return None
    words = text.strip(mark)
    return _plain(words) if words[:1].isspace() or words[-1:].isspace() or words[:1].isalnum() else None


def _plain(text: str) -> str | None:
    """The words of a text without markup."""
    return " ".join(_TAG.sub(" ", text[: 4 * _LONGEST_TITLE]).split()).strip("*_` ")[:_LONGEST_TITLE] or None


def heading_above(lines: Lines, index: int) -> str | None:
    """The nearest Markdown heading or banner above a line, of those a screen above; None without one."""
    for at in range(index - 1, max(-1, index - 1 - _SCREEN), -1):
        text = lines[at].strip()
        words = text.lstrip("#")
        if (text.startswith("#") and words[:1].isspace()) or text.startswith("Profile stats for:"):
            return _plain(words.strip())
    return None


_SCREEN = 60
"""Number of lines above a table in which a heading of it may stand (own choice: one screen)."""
_TOTAL = re.compile(
    r"(?<![^\s+])(Self )?(\w+) time total: *([0-9.,]{1,30} (?:ns|us|µs|μs|ms|s)(?![^\s<])|[^\s<\"'\\|]*)"
)


def is_total(line: str) -> bool:
    """Whether a line is a total below a table."""
    return " time total:" in line and _TOTAL.search(without_bold(line)) is not None


def without_bold(line: str) -> str:
    """The line without the marks of bold type and of code in Markdown."""
    return line.replace("**", "").replace("`", "")


def read_totals(lines: Lines, start: int, *, has_self_device: bool) -> tuple[TableTotals, str | None, int]:
    """Read the totals from the line `start` on.

    Args:
        lines: The document.
        start: First line below the table.
        has_self_device: Whether the table has self device times. Only then is `CUDA time total` (releases before
            1.9) a sum of self times.

    Returns:
        The totals, the name of their device, and the first line after them.
    """
    values: dict[str, int] = {}
    steps: dict[str, int] = {}
    device = None
    seen: set[str] = set()
    while (at := lines.filled(start)) is not None and " time total:" in (line := without_bold(lines[at])):
        found = list(_TOTAL.finditer(line))
        if not found or found[0][2] in seen:
            break
        seen.update(match[2] for match in found)
        for match in found:
            time = with_points(match[3])
            if match[2] == "CPU":
                field = "self_cpu_ns"
            else:
                device = match[2]
                field = "self_device_ns" if match[1] or has_self_device else "device_total_ns"
            value = read_value(ValueKind.TIME, time)
            if value and isinstance(value.value, int) and value.step:
                values[field], steps[field] = value.value, value.step
        start = at + 1
    return TableTotals(**values, resolution=steps), device, start


MANY_RATES = "read-many-rates"
KEPT = 1000
"""Most lines with a rate that are kept, because a log may print one each step."""

_UNITS = {
    "sample": "samples",
    "example": "samples",
    "sequence": "sequences",
    "seq": "sequences",
    "image": "images",
    "img": "images",
    "frame": "frames",
    "token": "tokens",
    "tok": "tokens",
    "iteration": "iterations",
    "iter": "iterations",
    "it": "iterations",
    "step": "steps",
    "batch": "batches",
    "request": "requests",
    "req": "requests",
}
"""Unit by the singular of its word."""
_NUMBER = r"[~≈]?\s?(?P<number>[0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?)\s?(?P<factor>[kKM](?=\s?[a-zA-Z]))?"
_UNIT = rf"(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})(?:e?s)?"
_PER_SECOND = r"\s?(?:/|per |_per_)\s?s(?:ec|ecs|econd|econds)?\b(?!/)"
_BEFORE = re.compile(rf"(?<![\w.,/:]){_NUMBER}\s?{_UNIT}{_PER_SECOND}(?!\s?[:=])", re.IGNORECASE)
_BEHIND = re.compile(rf"(?<![a-z]){_UNIT}{_PER_SECOND}[)\]'\"]?\s?[:=]\s?{_NUMBER}", re.IGNORECASE)
_FACTORS = {"k": 1e3, "m": 1e6}
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_HEADING = re.compile(r"#{1,6} |<h[1-6][ >]")
_SECOND = re.compile(r"[/_ ]s", re.IGNORECASE)
_ITEM = re.compile(r"\s{0,3}[-*+] (?P<text>\S.*)")
_LONGEST_SETTING = 80
_SETTINGS = 6
"""Number of items of lists that are kept (own choice: settings are few)."""
_LONGEST_WORDS = 200
"""Number of characters of a line that are kept."""
_SEARCHED_FOR_RATES = 2000
"""Number of characters of a line that are searched."""


def read_rates(lines: Lines, spans: Sequence[tuple[int, int]]) -> tuple[tuple[PrintedRate, ...], list[Loss]]:
    """All rates outside tables, and a loss with the number of lines with rates beyond the limit.

    Args:
        lines: The document.
        spans: First line and end of each table, in order.
    """
    found: list[PrintedRate] = []
    beyond = 0
    headings = [index for index in _outside(lines, spans) if _is_heading(lines.raw[index])]
    for index in _outside(lines, spans):
        if not _SECOND.search(lines.raw[index]) or not (matches := _matches(lines[index])):
            continue
        if len(found) >= KEPT:
            beyond += 1
            continue
        near = _near(index, spans, headings)
        above = max((at for at in headings if at <= index), default=None)
        found += (_rate(lines, index, match, near, above) for match in matches)
    line = found[-1].line if found else 0
    return tuple(found), [Loss(MANY_RATES, beyond, {"kept": KEPT, "line": line})] if beyond else []


def _outside(lines: Lines, spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Indices of the lines outside tables."""
    position = 0
    for top, end in (*spans, (len(lines), len(lines))):
        yield from range(position, top)
        position = end


def _is_heading(line: str) -> bool:
    """Whether a line is a heading; indented lines are part of a program or a log."""
    return _HEADING.match(line) is not None


def _matches(line: str) -> list[re.Match[str]]:
    """The rates in a line, which may contain long runs of blanks."""
    line = " ".join(line[:_SEARCHED_FOR_RATES].split())
    return list(_BEFORE.finditer(line)) or list(_BEHIND.finditer(line))


def _rate(
    lines: Lines, index: int, match: re.Match[str], near: tuple[int | None, int | None], heading: int | None
) -> PrintedRate:
    return PrintedRate(
        line=lines.number(index),
        words=match.string.replace("**", "").lstrip("-*> ")[:_LONGEST_WORDS],
        printed=match[0].strip(),
        per_s=_value(match["number"]) * _FACTORS.get((match["factor"] or "").lower(), 1),
        unit=_UNITS[match["unit"].lower()],
        after_table=near[0],
        before_table=near[1],
        heading=None if heading is None else _plain(lines[heading].lstrip("# ")),
        settings=() if heading is None else _settings(lines, max(heading, index - _SCREEN), index),
    )


def _settings(lines: Lines, start: int, end: int) -> tuple[str, ...]:
    """The short items of lists between two lines that give no rate themselves."""
    items = (_ITEM.match(lines[index]) for index in range(start, end))
    texts = (_plain(item["text"]) for item in items if item)
    return tuple(text for text in texts if text and len(text) <= _LONGEST_SETTING and not _matches(text))[:_SETTINGS]


def _value(text: str) -> float:
    """The number in a text; a comma is a thousands separator where possible, otherwise a decimal sign."""
    is_separator = "." in text or _THOUSANDS.fullmatch(text)
    return float((text if is_separator else text.replace(",", ".", 1)).replace(",", ""))


def _near(index: int, spans: Sequence[tuple[int, int]], headings: Iterable[int]) -> tuple[int | None, int | None]:
    """The nearest tables before and after a line; None if there is none or a heading is in between."""
    before = max((place for place, (_, end) in enumerate(spans) if end <= index), default=None)
    behind = min((place for place, (top, _) in enumerate(spans) if top > index), default=None)
    low = None if before is None or any(spans[before][1] <= at <= index for at in headings) else before
    high = None if behind is None or any(index <= at < spans[behind][0] for at in headings) else behind
    return low, high


_LOOP = re.compile(r"\bfor\s+\w{1,40}\s+in\s+range\(\s*([0-9][0-9_]{0,8})\s*\)")
_NEAR = 60
"""Number of lines above a table that may contain its program (own choice: one screen)."""
_SEARCHED_FOR_LOOPS = 500
"""Number of characters of a line that are searched."""


def read_loops(lines: Lines, spans: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """For each table, the numbers of iterations of the loops after the previous table, nearest first.

    Args:
        lines: The document.
        spans: First line and end of each table, in order.
    """
    before = [0, *(end for _, end in spans)]
    return [_above(lines, max(end, top - _NEAR), top) for end, (top, _) in zip(before, spans, strict=False)]


def _above(lines: Lines, first: int, top: int) -> tuple[int, ...]:
    found = (_LOOP.search(lines.raw[index][:_SEARCHED_FOR_LOOPS]) for index in range(top - 1, first - 1, -1))
    return tuple(int(match[1].replace("_", "")) for match in found if match is not None)
