"""Reads the totals below a table, such as `Self CPU time total: 9.217s`."""

from __future__ import annotations

import re

from traceanalyzer.readers.key_averages.cells import with_points
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.values import ValueKind, read_value
from traceanalyzer.trace.document import TableTotals

_TOTAL = re.compile(
    r"(?<![^\s+])(Self )?(\w+) time total: *([0-9.,]{1,30} (?:ns|us|µs|μs|ms|s)(?![^\s<])|[^\s<\"'\\|]*)"
)


def is_total(line: str) -> bool:
    """Whether a line is a total below a table."""
    return " time total:" in line and _TOTAL.search(line) is not None


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
    while (at := lines.filled(start)) is not None and " time total:" in (line := lines[at]):
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
