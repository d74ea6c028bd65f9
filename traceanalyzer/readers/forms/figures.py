"""Reads figures that change over time: use and memory of devices, rates and memory in logs of trainers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import fsum
from typing import NamedTuple

from traceanalyzer.readers.forms import values
from traceanalyzer.readers.forms.descriptions import Form, forms
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.trace.document import PrintedFigure

_LONGEST = 4000
"""Number of characters of a line that are searched."""
_IN_BRACKETS = re.compile(r"(?P<name>[^\[\]]+?) ?\[(?P<unit>[^\[\]]+)\]")
_NUMBER = re.compile(r"[0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?")


class _Reading(NamedTuple):
    """One value of a figure."""

    name: str
    unit: str
    value: float
    line: int


def read_figures(lines: Lines) -> tuple[PrintedFigure, ...]:
    """All figures of a document, by tool and name, with their least, mean, greatest and last value."""
    found: list[PrintedFigure] = []
    for form in forms()["figures"]:
        by_name: dict[tuple[str, str], list[_Reading]] = {}
        for reading in _below_header(lines, form) if form.header else _in_lines(lines, form):
            by_name.setdefault((reading.name, reading.unit), []).append(reading)
        found += [_figure(form, own) for own in by_name.values()]
    return tuple(found)


def _figure(form: Form, readings: Sequence[_Reading]) -> PrintedFigure:
    numbers = [reading.value for reading in readings]
    mean = fsum(numbers) / len(numbers)
    name, unit, _, line = readings[0]
    return PrintedFigure(
        form.id, form.tool, name, unit, len(numbers), min(numbers), mean, max(numbers), numbers[-1], line
    )


def _in_lines(lines: Lines, form: Form) -> Iterator[_Reading]:
    for index in range(len(lines)):
        text = lines[index][:_LONGEST]
        if not form.line or not form.line.search(text):
            continue
        matches = [(name, match) for name, pattern in form.pairs if (match := pattern.search(text))]
        matches += [(match["name"], match) for match in form.pair.finditer(text)] if form.pair else []
        for name, match in matches:
            unit = match.groupdict().get("unit") or next(
                (unit for pattern, unit in form.named_units if pattern.search(name)), ""
            )
            yield from _reading(name, unit, match["value"], lines.number(index))


def _below_header(lines: Lines, form: Form) -> Iterator[_Reading]:
    """Figures of tables whose names are a header, and whose units stand in it or in a line below it."""
    names: list[str] = []
    units: list[str] = []
    for index in range(len(lines)):
        text = lines[index][:_LONGEST].strip()
        if form.header and form.header.search(text):
            names, units = _names(text, form)
        elif names and form.units and form.units.search(text):
            units = text.lstrip("#").split()
        elif names:
            cells = text.split(form.separator) if form.separator else text.split()
            if len(cells) != len(names):
                names = names if text.startswith("#") or not text else []
                continue
            yield from _row(names, units, cells, form, lines.number(index))


def _names(text: str, form: Form) -> tuple[list[str], list[str]]:
    if form.separator is None:
        names = text.lstrip("#").split()
        return names, [""] * len(names)
    cells = [cell.strip() for cell in text.split(form.separator)]
    parts = [_IN_BRACKETS.fullmatch(cell) for cell in cells]
    names = [part["name"] if part else cell for part, cell in zip(parts, cells, strict=True)]
    return names, [part["unit"] if part else "" for part in parts]


def _row(names: Sequence[str], units: Sequence[str], cells: Sequence[str], form: Form, line: int) -> Iterator[_Reading]:
    """The figures of one line, of the device that it names."""
    device = cells[names.index(form.key)].strip() if form.key in names else None
    for position, (name, cell) in enumerate(zip(names, cells, strict=True)):
        unit = units[position] if position < len(units) else ""
        if name != form.key and unit:
            label = f"{name} ({form.key} {device})" if device is not None else name
            yield from _reading(label, unit, cell.strip().removesuffix(unit).strip(), line)


def _reading(name: str, unit: str, text: str, line: int) -> Iterator[_Reading]:
    number = values.number(text) if _NUMBER.fullmatch(text) else None
    if number is not None:
        yield _Reading(name, unit, float(number), line)
