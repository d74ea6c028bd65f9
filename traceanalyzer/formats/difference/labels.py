"""Texts of table cells, and columns common to the tables of a difference."""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.report.section import SectionColumn

STATUS = {
    "appeared": Text("diff-status-appeared", "new", "an operator or kernel that was not there before"),
    "vanished": Text("diff-status-vanished", "gone", "an operator or kernel that is not there any more"),
    "slower": Text("diff-status-slower", "slower"),
    "faster": Text("diff-status-faster", "faster"),
    "host-faster": Text("diff-status-host-faster", "host faster", "the device became slower"),
    "host-slower": Text("diff-status-host-slower", "host slower", "the device became faster"),
    "device-faster": Text("diff-status-device-faster", "device faster", "the host became slower"),
    "device-slower": Text("diff-status-device-slower", "device slower", "the host became faster"),
    "calls": Text("diff-status-calls", "calls", "only the number of calls changed"),
    "not-printed": Text("diff-status-not-printed", "not printed", "a row that one of two tables does not print"),
    "fixed": Text("diff-status-fixed", "fixed", "a finding that is gone"),
    "new": Text("diff-status-new", "new", "a finding that was not there before"),
    "kept": Text("diff-status-kept", "still there", "a finding"),
    "base-only": Text("diff-status-base-only", "only before", "a finding, where the two sides cannot be compared"),
    "head-only": Text("diff-status-head-only", "only after", "a finding, where the two sides cannot be compared"),
    "both": Text("diff-status-both", "both", "a finding of both sides, where they cannot be compared"),
}
"""Texts for the status of changes and findings."""


def columns(unit: str) -> tuple[SectionColumn, SectionColumn, SectionColumn]:
    """Columns for before, after and the change, in one unit."""
    return (
        SectionColumn(Text("diff-base", "Base", "before"), unit),
        SectionColumn(Text("diff-head", "Head", "after"), unit),
        SectionColumn(Text("diff-change", "Change"), unit),
    )
