"""Lists every step with its parts."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Topic
from traceanalyzer.sections.overview import PART_LABELS
from traceanalyzer.structure.step_breakdown import PARTS, Step, StepBreakdown

TITLE = Text("steps-title", "Steps")
_INFERRED = Text("steps-inferred-title", "Inferred steps")
_NAME = Text("steps-name", "Step")
_DURATION = Text("steps-duration", "Duration")


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of the steps, and one of inferred steps."""
    breakdown = report.result("step_breakdown", StepBreakdown)
    if breakdown is None:
        return
    if len(breakdown.steps) > 1:
        yield Section(
            "steps", TITLE, tables=(_table("steps", breakdown.steps, top),), topic=Topic.STEPS, is_detail=True
        )
    if breakdown.inferred is not None:
        table = _table("inferred_steps", breakdown.inferred.steps, top)
        yield Section("inferred-steps", _INFERRED, tables=(table,), topic=Topic.STEPS, is_detail=True)


def _table(name: str, steps: tuple[Step, ...], top: int) -> SectionTable:
    """Table of up to `top` steps in the order of time, without empty parts."""
    used = [part for part in PARTS if any(getattr(step, f"{part}_ns") for step in steps)]
    columns = [
        SectionColumn(_NAME, ""),
        SectionColumn(_DURATION, "ns"),
        *(SectionColumn(PART_LABELS[part], "ns") for part in used),
    ]
    fields = ["name", "duration_ns", *(f"{part}_ns" for part in used)]
    rows = tuple(tuple(getattr(step, field) for field in fields) for step in steps[:top])
    return SectionTable(name, tuple(columns), rows, len(steps))
