"""The table of results, as people read it."""

from __future__ import annotations

from collections.abc import Iterable

from examples.lab.measuring import Result

COLUMNS = ("fault", "found", "after the fix", "predicted saving", "measured saving", "step before", "error")


def markdown(results: Iterable[Result]) -> str:
    """A table in Markdown, whose columns also line up as plain text."""
    rows = [COLUMNS, *map(_cells, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cells(row: Result) -> tuple[str, ...]:
    if row.skipped is not None:
        return (row.fault, row.skipped, *[""] * (len(COLUMNS) - 2))
    found = ", ".join(row.found) or "no"
    after = ", ".join(row.found_after_the_fix) or "silent"
    predicted = "" if row.predicted_ms is None else f"{row.predicted_ms[0]:.2f} to {row.predicted_ms[1]:.2f} ms"
    error = "" if row.error_share is None else f"{row.error_ms:+.2f} ms ({row.error_share:+.1%})"
    return (row.fault, found, after, predicted, f"{row.measured_ms:.2f} ms", f"{row.before_ms:.2f} ms", error)
