"""Restores the header of rows that were copied without it, where units and number of columns leave no choice.

The layouts are those of `_build_table` in torch/autograd/profiler_util.py, and of `build_table` in
torch/autograd/profiler.py before. No two have the same units in the same order, and in every row the mean time times
the number of calls must be the total time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.values import PATTERNS, Value, ValueKind, read_value

_FEWEST = 2
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
_TIME = re.compile(r"-?[0-9]+\.[0-9]{3}(?:us|µs|μs|ms|s)")
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
            if len(rows) >= _FEWEST:
                yield rows
            rows = []
        rows.append(index)
    if len(rows) >= _FEWEST:
        yield rows


def _looks_like_row(line: str) -> bool:
    """Whether a line ends with at least as many values as the shortest layout has, some of them times of torch."""
    words = _values(line)
    at_end = list(takewhile(_VALUE.fullmatch, reversed(words)))
    return len(words) > len(at_end) >= len(_LAYOUTS[-1]) and sum(map(bool, map(_TIME.fullmatch, at_end))) >= _TIMES


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
