"""Prints a ProfilerTable the way torch prints one, so that tests can read back what they wrote."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.trace.document import ProfilerTable, TableRow

_NAMES = {
    "name": "Name",
    "overload_name": "Overload Name",
    "self_cpu_share": "Self CPU %",
    "self_cpu_ns": "Self CPU",
    "cpu_total_share": "CPU total %",
    "cpu_total_ns": "CPU total",
    "cpu_avg_ns": "CPU time avg",
    "self_device_ns": "Self {device}",
    "self_device_share": "Self {device} %",
    "device_total_share": "{device} total %",
    "device_total_ns": "{device} total",
    "device_avg_ns": "{device} time avg",
    "cpu_mem_bytes": "CPU Mem",
    "self_cpu_mem_bytes": "Self CPU Mem",
    "device_mem_bytes": "{device} Mem",
    "self_device_mem_bytes": "Self {device} Mem",
    "calls": "# of Calls",
    "node_id": "Node ID",
    "input_shapes": "Input Shapes",
    "source_location": "Source Location",
    "flops": "Total {scale}FLOPs",
    "flops_per_second": "{scale}FLOPS/s",
}
_OLD_NAMES = {
    "self_cpu_share": "Self CPU total %",
    "self_cpu_ns": "Self CPU total",
    "calls": "Number of Calls",
}
_TIME_UNITS = {1: "us", 10**3: "ms", 10**6: "s"}
_SIZE_UNITS = {11: ("KB", 2**10), 10486: ("MB", 2**20), 10737419: ("GB", 2**30)}
_FLOP_SCALES = " KMGTP"


@dataclass(frozen=True)
class Style:
    """What a table does not say about its own looks. None lets the contents decide, as torch does."""

    name_width: int | None = None
    shapes_width: int | None = None
    source_width: int | None = None
    unit_of_size: str = "B"
    flops_scale: int = 0
    old: bool = False
    """Torch 1.4 to 1.6: wide columns, everything left-aligned, other words."""
    header: str | None = None


def write_table(table: ProfilerTable, style: Style | None = None) -> str:
    """The table with its dashes and totals, every line ended."""
    style = style or Style()
    printed = _print_order(table.columns)
    widths = [_width(column, table, style) for column in table.columns]
    names = [_header(column, table.device or "None", style) for column in table.columns]
    dashes = "".join("-" * width + "  " for width in widths)
    lines = _above(table, style, "=" * (len(dashes) - 2))
    lines += [dashes, _line(names, table.columns, widths, style), dashes]
    for row in table.rows:
        texts = [_text(row, column, table.device, style) for column in printed]
        lines.append(_line(texts, table.columns, widths, style))
        if "source_location" in table.columns:
            blank = [""] * (len(texts) - 1)
            frames = [*row.source_location[1:], ""]
            lines += [_line([*blank, frame], table.columns, widths, style) for frame in frames]
    lines.append(dashes)
    return "\n".join(lines + _totals(table)) + "\n"


def _above(table: ProfilerTable, style: Style, line: str) -> list[str]:
    lines = [line, style.header] if style.header is not None else []
    return lines + ([line, "This report only display top-level ops statistics"] if table.top_level_only else [])


def _print_order(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Torch names source before FLOPs, and prints FLOPs before source."""
    if "source_location" in columns and "flops" in columns:
        return (*columns[:-2], "flops", "source_location")
    return columns


def _width(column: str, table: ProfilerTable, style: Style) -> int:
    if column in {"name", "overload_name"}:
        return style.name_width or min(55, 4 + max(len(row.name) for row in table.rows))
    if column == "input_shapes":
        return style.shapes_width or min(80, 4 + max(len(row.input_shapes or "") for row in table.rows))
    if column == "source_location":
        frames = [len(frame) for row in table.rows for frame in row.source_location]
        return style.source_width or min(75, 4 + max(frames, default=8))
    return 15 if style.old else 12


def _header(column: str, device: str, style: Style) -> str:
    name = (_OLD_NAMES if style.old else {}).get(column, _NAMES[column])
    return name.format(device=device, scale=_FLOP_SCALES[style.flops_scale // 3].strip())


def _line(texts: list[str], columns: tuple[str, ...], widths: list[int], style: Style) -> str:
    left = [style.old or column == "source_location" for column in columns]
    return "".join(
        (text.ljust(width) if to_left else text.rjust(width)) + "  "
        for text, width, to_left in zip(texts, widths, left, strict=True)
    )


def _text(row: TableRow, column: str, device: str | None, style: Style) -> str:
    value = getattr(row, column)
    if column == "source_location":
        return value[0] if value else ""
    if column == "cpu_total_share" and row.is_async:
        return "0"
    if column.endswith("_share"):
        return "NaN" if value is None else f"{100 * value:.2f}%"
    if column.endswith("_ns"):
        return _time(value, row.resolution[column])
    if column.endswith("_bytes"):
        return _size(value, row.resolution[column], style)
    if column.startswith("flops"):
        return "--" if value is None else f"{value / 10**style.flops_scale:8.3f}"
    return str(value)


def _time(ns: int, step: int) -> str:
    whole, thousandths = divmod(abs(ns) // step, 1000)
    return f"{'-' * (ns < 0)}{whole}.{thousandths:03d}{_TIME_UNITS[step]}"


def _size(size: int, step: int, style: Style) -> str:
    unit, factor = _SIZE_UNITS.get(step, ("B", 1))
    number = str(size) if factor == 1 else f"{size / factor:.2f}"
    return f"{number} {unit[:-1]}{style.unit_of_size}"


def _totals(table: ProfilerTable) -> list[str]:
    totals = table.totals
    words = {
        "self_cpu_ns": "Self CPU time total",
        "self_device_ns": f"Self {table.device} time total",
        "device_total_ns": f"{table.device} time total",
    }
    return [
        f"{text}: {_time(getattr(totals, field), totals.resolution[field])}"
        for field, text in words.items()
        if getattr(totals, field) is not None
    ]
