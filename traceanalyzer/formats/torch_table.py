"""Prints `key_averages().table()` as torch 2.13 does: `_build_table` in torch/autograd/profiler_util.py.

Not a report: the input is `KeyAverages`, and the output equals that of torch including blanks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from traceanalyzer.analyzers.operators.key_averages import EventAverage, KeyAverages
from traceanalyzer.errors import UsageError
from traceanalyzer.report.names import in_one_line

NAME_WIDTH = 55
SHAPES_WIDTH = 80
_WIDTH = 12
_GAP = "  "
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")

_SORT_FIELDS = {
    "cpu_time": "cpu_avg_us",
    "cpu_time_total": "cpu_total_us",
    "self_cpu_time_total": "self_cpu_us",
    "cpu_memory_usage": "cpu_mem_bytes",
    "self_cpu_memory_usage": "self_cpu_mem_bytes",
    "count": "calls",
    "flops": "flops",
    "device_time": "device_avg_us",
    "device_time_total": "device_total_us",
    "self_device_time_total": "self_device_us",
    "device_memory_usage": "device_mem_bytes",
    "self_device_memory_usage": "self_device_mem_bytes",
}
_DEVICE_WORDS = ("cuda", "xpu", "privateuse1")

SORT_KEYS = (
    *_SORT_FIELDS,
    *(key.replace("device", word) for word in _DEVICE_WORDS for key in _SORT_FIELDS if "device" in key),
)
"""Values of `sort_by` as in torch, where cuda, xpu and privateuse1 all mean the device of the trace."""


def render(
    averages: KeyAverages,
    *,
    sort_by: str | None = None,
    row_limit: int = 100,
    name_width: int | None = NAME_WIDTH,
    shapes_width: int | None = SHAPES_WIDTH,
) -> str:
    """Render the table as text; empty without events.

    Args:
        averages: The rows, and the facts that select the columns.
        sort_by: One of `SORT_KEYS`, the largest first; None keeps the order in which the events started.
        row_limit: Number of rows to print; -1 for all. Totals are over all rows.
        name_width: Width at which names are cut; None for no limit.
        shapes_width: Width at which input shapes are cut; None for no limit.

    Raises:
        UsageError: There is no such sort key.
    """
    rows = [_safe(row) for row in _sorted(averages.rows, sort_by)]
    if not rows:
        return ""
    totals = _Totals.of(rows)
    columns = _columns(averages, rows, totals, name_width, shapes_width)
    dashes = "".join("-" * column.width + _GAP for column in columns)
    shown = rows if row_limit < 0 else rows[:row_limit]
    lines = [dashes, _line(columns, [column.header for column in columns]), dashes]
    lines += [_line(columns, [column.text(row) for column in columns]) for row in shown]
    lines += [dashes, f"Self CPU time total: {_time(totals.self_cpu_us)}"]
    if _has_device_time(rows):
        lines.append(f"Self {averages.device} time total: {_time(totals.self_device_us)}")
    return "\n".join(lines) + "\n"


def _safe(row: EventAverage) -> EventAverage:
    """The row with texts that a terminal only shows; torch prints whatever they hold."""
    if row.name.isprintable() and (row.input_shapes or "").isprintable():
        return row
    shapes = None if row.input_shapes is None else in_one_line(row.input_shapes)
    return msgspec.structs.replace(row, name=in_one_line(row.name), input_shapes=shapes)


def _sorted(rows: Sequence[EventAverage], sort_by: str | None) -> Sequence[EventAverage]:
    if sort_by is None:
        return rows
    if sort_by not in SORT_KEYS:
        raise UsageError(f"{sort_by}: no such sort key; use one of {', '.join(SORT_KEYS)}")
    for word in _DEVICE_WORDS:
        sort_by = sort_by.replace(word, "device")
    return sorted(rows, key=attrgetter(_SORT_FIELDS[sort_by]), reverse=True)


@dataclass(frozen=True)
class _Totals:
    """Totals for shares: sums over all rows, even those not shown."""

    self_cpu_us: float
    self_device_us: float

    @classmethod
    def of(cls, rows: Sequence[EventAverage]) -> _Totals:
        device = [row for row in rows if row.on_device and not row.is_user_annotation]
        return cls(_added(rows, "self_cpu_us"), _added(device, "self_device_us"))


def _added(rows: Sequence[EventAverage], field: str) -> float:
    """Add values one by one, because `sum` rounds differently in newer Python versions."""
    total = 0.0
    for row in rows:
        total += getattr(row, field)
    return total


@dataclass(frozen=True)
class _Column:
    """A column of the table: its header, the text of a row, and its width."""

    header: str
    text: Callable[[EventAverage], str]
    width: int = _WIDTH


def _columns(
    averages: KeyAverages,
    rows: Sequence[EventAverage],
    totals: _Totals,
    name_width: int | None,
    shapes_width: int | None,
) -> list[_Column]:
    columns = [_name_column(rows, name_width), *_cpu_columns(totals)]
    device = averages.device
    if device and _has_device_time(rows):
        columns += _device_columns(device, totals)
    if averages.profile_memory:
        columns.append(_Column("CPU Mem", lambda row: _size(row.cpu_mem_bytes)))
        columns.append(_Column("Self CPU Mem", lambda row: _size(row.self_cpu_mem_bytes)))
        if device and any(row.self_device_mem_bytes > 0 for row in rows):
            columns.append(_Column(f"{device} Mem", lambda row: _size(row.device_mem_bytes)))
            columns.append(_Column(f"Self {device} Mem", lambda row: _size(row.self_device_mem_bytes)))
    columns.append(_Column("# of Calls", lambda row: str(row.calls)))
    if any(row.input_shapes not in (None, "[]") for row in rows):
        columns.append(_shapes_column(rows, shapes_width))
    if averages.with_flops and any(row.flops > 0 for row in rows):
        columns.append(_flops_column(min(row.flops for row in rows if row.flops > 0)))
    return columns


def _name_column(rows: Sequence[EventAverage], limit: int | None) -> _Column:
    width = max(len(row.name) for row in rows) + 4
    if limit is None:
        return _Column("Name", lambda row: row.name, width)
    kept = limit - 3
    return _Column("Name", lambda row: row.name if len(row.name) < kept else row.name[:kept] + "...", min(width, limit))


def _cpu_columns(totals: _Totals) -> list[_Column]:
    whole = totals.self_cpu_us
    return [
        _Column("Self CPU %", lambda row: _share(row.self_cpu_us, whole)),
        _Column("Self CPU", lambda row: _time(row.self_cpu_us)),
        _Column("CPU total %", lambda row: "0" if row.is_async else _share(row.cpu_total_us, whole)),
        _Column("CPU total", lambda row: _time(row.cpu_total_us)),
        _Column("CPU time avg", lambda row: _time(row.cpu_avg_us)),
    ]


def _device_columns(device: str, totals: _Totals) -> list[_Column]:
    whole = totals.self_device_us
    return [
        _Column(f"Self {device}", lambda row: _time(row.self_device_us)),
        _Column(f"Self {device} %", lambda row: _share(row.self_device_us, whole)),
        _Column(f"{device} total", lambda row: _time(row.device_total_us)),
        _Column(f"{device} time avg", lambda row: _time(row.device_avg_us)),
    ]


def _shapes_column(rows: Sequence[EventAverage], limit: int | None) -> _Column:
    width = max(len(row.input_shapes or "") for row in rows) + 4
    width = width if limit is None else min(width, limit)
    return _Column("Input Shapes", lambda row: (row.input_shapes or "")[:width], width)


def _flops_column(smallest: int) -> _Column:
    """The unit is that of the smallest number, for all rows."""
    magnitude = max(0.0, min(math.log10(smallest) / 3, float(len(_FLOPS) - 1)))
    scale = pow(10, math.floor(magnitude) * -3.0)
    header = f"Total {_FLOPS[int(magnitude)]}"
    return _Column(header, lambda row: f"{row.flops * scale:8.3f}" if row.flops > 0 else "--")


def _has_device_time(rows: Sequence[EventAverage]) -> bool:
    return any(row.self_device_us > 0 for row in rows)


def _line(columns: Sequence[_Column], texts: Sequence[str]) -> str:
    return "".join(text.rjust(column.width) + _GAP for column, text in zip(columns, texts, strict=True))


def _time(us: float) -> str:
    if us >= 1_000_000:
        return f"{us / 1_000_000:.3f}s"
    if us >= 1_000:
        return f"{us / 1_000:.3f}ms"
    return f"{us:.3f}us"


def _share(us: float, whole: float) -> str:
    return "NaN" if whole == 0 else f"{us * 100.0 / whole:.2f}%"


def _size(count: int) -> str:
    for factor, unit in ((2**30, "GB"), (2**20, "MB"), (2**10, "KB")):
        if abs(count) >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count} B"
