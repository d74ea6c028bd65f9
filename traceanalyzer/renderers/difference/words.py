"""Words in the cells of a difference, and columns that its tables share."""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Column

STATUS = {
    "appeared": Text("diff-status-appeared", "new", "an operator or kernel that was not there before"),
    "vanished": Text("diff-status-vanished", "gone", "an operator or kernel that is not there any more"),
    "slower": Text("diff-status-slower", "slower"),
    "faster": Text("diff-status-faster", "faster"),
    "calls": Text("diff-status-calls", "calls", "only the number of calls changed"),
    "not-printed": Text("diff-status-not-printed", "not printed", "a row that one of two tables does not print"),
    "fixed": Text("diff-status-fixed", "fixed", "a finding that is gone"),
    "new": Text("diff-status-new", "new", "a finding that was not there before"),
    "kept": Text("diff-status-kept", "still there", "a finding"),
}
"""Of changes and findings."""


def columns(unit: str) -> tuple[Column, Column, Column]:
    """Before, after, and the change, in one unit."""
    return (
        Column(Text("diff-base", "Base", "before"), unit),
        Column(Text("diff-head", "Head", "after"), unit),
        Column(Text("diff-change", "Change"), unit),
    )
