"""docs/lab.md, and the table of results that the command prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from examples.lab.score import Score

KEPT_RUN = "first"
"""The run whose shortened traces are in fixtures/lab."""

COLUMNS = (
    "fault",
    "size",
    "fired, of expected",
    "predicted",
    "measured (range)",
    "inside",
    "width",
    "share: predicted",
    "share: undisturbed (range)",
    "inside",
    "false alarms after",
)


def table(rows: Iterable[Score]) -> str:
    """A table in Markdown, whose columns also line up as plain text."""
    cells = [COLUMNS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def summary(rows: Sequence[Score]) -> str:
    """How many of how many."""
    lines = []
    expected = [row for row in rows if row.fault.rules and not row.fault.is_risk]
    predicted = [row for row in expected if row.predicted is not None]
    widths = [row.width for row in predicted if row.width is not None]
    lines.append(f"* {len(rows)} rows; {len(rows) - len(expected)} are of faults that no rule is about yet.")
    lines.append(f"* Of the {len(expected)} others the fault was seen in {sum(bool(row.fired) for row in expected)}, ")
    lines[-1] += f"and a saving was predicted in {len(predicted)}."
    lines.append(
        f"* Inside the predicted interval: {sum(row.inside is True for row in predicted)} of {len(predicted)} in ms, "
        f"{sum(row.inside_share is True for row in predicted)} in shares of the step; in "
        f"{sum(row.touches is True and not row.inside for row in predicted)} more at least one turn was inside."
    )
    if widths:
        lines.append(f"* Median width of the intervals: {median(widths):.0%} of their middle.")
    nothing = [row for row in rows if row.costs_nothing]
    lines.append(f"* {len(nothing)} rows show a fault that cannot be told from noise here.")
    alarms = [row for row in rows if row.false_alarms]
    lines.append(f"* In {len(alarms)} rows a rule of the fault still speaks after the fix.")
    return "\n".join(lines)


def _cells(row: Score) -> tuple[str, ...]:
    fired = f"{', '.join(row.fired) or 'none'} of {len(row.fault.rules)}" if row.fault.rules else "no rule yet"
    shares = row.predicted_shares
    return (
        row.fault.name,
        row.row.size,
        fired,
        "" if row.predicted is None else "{:.2f} to {:.2f} ms".format(*row.predicted),
        "{1:.2f} ms ({0:.2f} to {2:.2f})".format(*row.measured),
        _verdict(row.inside),
        "" if row.width is None else f"{row.width:.0%}",
        "" if shares is None else "{:.0%} to {:.0%}".format(*shares),
        "{1:.0%} ({0:.0%} to {2:.0%})".format(*row.undisturbed_shares),
        _verdict(row.inside_share),
        ", ".join(row.false_alarms),
    )


def _verdict(inside: bool | None) -> str:
    return "" if inside is None else "yes" if inside else "no"
