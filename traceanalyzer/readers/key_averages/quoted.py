"""Reads totals and a few rows that a text quotes without their table.

Which columns a share and a time are of follows from the totals: the share of the host's total, or of the device's, is
the time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.surroundings import without_bold
from traceanalyzer.readers.key_averages.values import PATTERNS, ValueKind, read_value
from traceanalyzer.trace.document import ProfilerTable, TableRow, TableTotals

_TIME = PATTERNS[ValueKind.TIME]
_ROW = re.compile(rf"(?P<name>\S.*?)[\s|:,(]+(?P<share>[0-9.]{{1,9}} ?%)[\s|,(]+(?P<time>{_TIME})(?!\w)")
_LOADER = re.compile(r"\b(?P<name>data ?loader|loader)\b[^0-9%.]{0,20}(?P<share>[0-9.]{1,9} ?%)", re.IGNORECASE)
"""The loader and its share, as people write it."""
_HOST = re.compile(rf"Self CPU time total: *(?P<time>{_TIME})(?!\w)")
_DEVICE = re.compile(rf"\b(?P<device>CUDA|GPU|XPU|NPU)(?: time)?(?: total)?:? *(?P<time>{_TIME})(?!\w)")
_MARKUP = "*`|>-•, \t"
_ROUNDED = 0.01
"""By what a printed share of a total and a printed time differ at most (own choice)."""
_NEAR = 3
"""Lines from that of the host's total on that may give a device's (own choice: torch prints them together)."""
_LONGEST = 500


class _Totals(NamedTuple):
    """The totals that a text quotes, and its line of them."""

    totals: TableTotals
    device: str | None
    line: int


def read_quoted(lines: Lines) -> ProfilerTable | None:
    """What a text without a table quotes of one; None without totals, or without a row that fits them."""
    quoted = _totals(lines)
    if quoted is None:
        return None
    rows = [row for index in range(len(lines)) if (row := _row(lines, index, quoted.totals)) is not None]
    if not rows:
        return None
    return ProfilerTable(
        title=None,
        section=None,
        line=min(quoted.line, rows[0].line),
        columns=("name", "self_cpu_share", "self_cpu_ns", "self_device_share", "self_device_ns"),
        device=quoted.device,
        rows=tuple(rows),
        totals=quoted.totals,
    )


def read_totals_alone(lines: Lines) -> ProfilerTable | None:
    """Totals of the host and of a device that a text quotes without any row; None without both."""
    quoted = _totals(lines)
    if quoted is None or not quoted.totals.self_cpu_ns or quoted.totals.self_device_ns is None:
        return None
    return ProfilerTable(
        title=None,
        section=None,
        line=quoted.line,
        columns=("name", "self_cpu_ns", "self_device_ns"),
        device=quoted.device,
        rows=(),
        totals=quoted.totals,
    )


def _totals(lines: Lines) -> _Totals | None:
    """The first total of the host, and that of a device in the same line or soon after it."""
    for index in range(len(lines)):
        if " time total:" in lines.raw[index] and (match := _HOST.search(without_bold(lines[index]))):
            near = " ".join(without_bold(lines[at]) for at in range(index, min(index + _NEAR, len(lines))))
            device = _DEVICE.search(near[: _NEAR * _LONGEST])
            totals = TableTotals(self_cpu_ns=_ns(match), self_device_ns=_ns(device))
            return _Totals(totals, device["device"] if device else None, lines.number(index))
    return None


def _ns(match: re.Match[str] | None) -> int | None:
    value = read_value(ValueKind.TIME, match["time"]) if match else None
    return value.value if value is not None and isinstance(value.value, int) else None


def _row(lines: Lines, index: int, totals: TableTotals) -> TableRow | None:
    """The row that a line quotes, with the column that its share fits; None if it fits none."""
    if "%" not in lines.raw[index]:
        return None
    text, line = without_bold(lines[index][:_LONGEST]), lines.number(index)
    if match := _ROW.search(text):
        return _of_times(line, match, totals)
    match = _LOADER.search(text)
    share = _share(match["share"]) if match else None
    if match is None or share is None or totals.self_cpu_ns is None:
        return None
    time = round(share * totals.self_cpu_ns)
    return TableRow(line=line, name=match["name"], part="loader", self_cpu_share=share, self_cpu_ns=time)


def _of_times(line: int, match: re.Match[str], totals: TableTotals) -> TableRow | None:
    """A row with a share and a time: torch prints those of the row itself first."""
    share, time, name = _share(match["share"]), _ns(match), match["name"].strip(_MARKUP)
    if share is None or time is None or not name:
        return None
    row = TableRow(line=line, name=name, name_truncated=name.endswith("..."))
    if _fits(time, share, totals.self_cpu_ns):
        return replace(row, self_cpu_share=share, self_cpu_ns=time)
    if _fits(time, share, totals.self_device_ns):
        return replace(row, self_device_share=share, self_device_ns=time)
    return None


def _share(text: str) -> float | None:
    value = read_value(ValueKind.SHARE, text.replace(" ", ""))
    return value.value if value is not None and isinstance(value.value, float) else None


def _fits(time: int, share: float, total: int | None) -> bool:
    return bool(total) and abs(time - share * (total or 0)) <= _ROUNDED * (total or 0)
