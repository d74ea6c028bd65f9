"""The answer to a query as text: a table for people, CSV and JSON for programs. Data as it is, not in words."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Protocol

from traceanalyzer.report.names import in_one_line, inert, shorten

_WIDEST = 80
"""Characters of a cell in a table (own choice: two names of kernels fit a line of a wide terminal)."""


class Answered(Protocol):
    """Columns and rows, as `querying.QueryRows` has them."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the columns."""

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """The rows of the answer."""


def table(answer: Answered) -> str:
    """A table in plain text; numbers to the right, nothing for what is unknown."""
    columns = zip(*answer.rows, strict=True) if answer.rows else [()] * len(answer.columns)
    parts = [_column(name, values) for name, values in zip(answer.columns, columns, strict=True)]
    count = len(answer.rows)
    lines = "".join(f"{'  '.join(cells).rstrip()}\n" for cells in zip(*parts, strict=True))
    return f"{lines}({count:,} row{'' if count == 1 else 's'})\n"


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """The cells of a column in equal width, with its head and a rule below it."""
    cells = [in_one_line(name), *(shorten(in_one_line(_plain(value)), _WIDEST) for value in values)]
    width = max(map(len, cells))
    is_number = all(value is None or type(value) in (int, float) for value in values)
    head, *rest = [cell.rjust(width) if is_number and values else cell.ljust(width) for cell in cells]
    return [head, "-" * width, *rest]


def as_csv(answer: Answered) -> str:
    """CSV with the names of the columns in the first line; texts that a spreadsheet would compute are escaped."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([inert(name) for name in answer.columns])
    writer.writerows([_field(value) for value in row] for row in answer.rows)
    return text.getvalue()


def as_json(answer: Answered) -> str:
    """A list with an object for each row, one a line; null for what is unknown."""
    rows = (dict(zip(answer.columns, map(_finite, row), strict=True)) for row in answer.rows)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, default=_as_json) for row in rows)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def _field(value: Any) -> Any:
    if isinstance(value, str):
        return inert(value)
    return str(value).lower() if isinstance(value, bool) else value


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _as_json(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else str(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


TEXTS: dict[str, Callable[[Answered], str]] = {"terminal": table, "csv": as_csv, "json": as_json}
"""Formats that are texts; Parquet is written by DuckDB."""
