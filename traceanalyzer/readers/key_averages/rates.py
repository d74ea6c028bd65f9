"""Finds printed rates, such as `~4.9 samples/sec`, in the text around tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.trace.document import PrintedRate
from traceanalyzer.trace.model import Loss

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
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_HEADING = re.compile(r"#{1,6} |<h[1-6][ >]")
_SECOND = re.compile(r"[/_ ]s", re.IGNORECASE)
_LONGEST = 200
"""Number of characters of a line that are kept."""
_SEARCHED = 2000
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
        found += (_rate(lines, index, match, near) for match in matches)
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
    line = " ".join(line[:_SEARCHED].split())
    return list(_BEFORE.finditer(line)) or list(_BEHIND.finditer(line))


def _rate(lines: Lines, index: int, match: re.Match[str], near: tuple[int | None, int | None]) -> PrintedRate:
    return PrintedRate(
        line=lines.number(index),
        words=match.string.replace("**", "").lstrip("-*> ")[:_LONGEST],
        printed=match[0].strip(),
        per_s=_value(match["number"]) * _FACTORS.get((match["factor"] or "").lower(), 1),
        unit=_UNITS[match["unit"].lower()],
        after_table=near[0],
        before_table=near[1],
    )


def _value(text: str) -> float:
    """The number in a text; a comma is a thousands separator where possible, otherwise a decimal sign."""
    return float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text.replace(",", ".", 1).replace(",", ""))


def _near(index: int, spans: Sequence[tuple[int, int]], headings: Iterable[int]) -> tuple[int | None, int | None]:
    """The nearest tables before and after a line; None if there is none or a heading is in between."""
    before = max((place for place, (_, end) in enumerate(spans) if end <= index), default=None)
    behind = min((place for place, (top, _) in enumerate(spans) if top > index), default=None)
    low = None if before is None or any(spans[before][1] <= at <= index for at in headings) else before
    high = None if behind is None or any(index <= at < spans[behind][0] for at in headings) else behind
    return low, high
