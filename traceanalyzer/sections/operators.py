"""Which operators cost most?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.operators import Operators, OperatorsByShape
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("operators-title", "Operators by device self time")
_HOST_TITLE = Text("operators-host-title", "Operators by host self time")
_BY_SHAPE = Text("operators-by-shape-title", "Operators by input shapes")
_NAME = SectionColumn(Text("operators-name", "Operator"), "", is_name=True)
_SHAPES = SectionColumn(Text("operators-shapes", "Input shapes"), "", is_name=True)
_CALLS = SectionColumn(Text("operators-calls", "Calls"), "count")
_DEVICE = (
    (SectionColumn(Text("operators-device-self", "Device self"), "ns"), "device_self_ns"),
    (SectionColumn(Text("operators-device-share", "Share"), "share", has_bar=True), "share"),
    (SectionColumn(Text("operators-device-total", "Device total"), "ns", is_extra=True), "device_total_ns"),
)
_HOST = (
    (SectionColumn(Text("operators-host-self", "Host self"), "ns"), "host_self_ns"),
    (SectionColumn(Text("operators-host-total", "Host total"), "ns", is_extra=True), "host_total_ns"),
)
_HOST_SHARE = (SectionColumn(Text("operators-host-share", "Share"), "share", has_bar=True), "share")
_TERMS = (
    Term(
        Text("define-device-self", "Device self, total"),
        Text(
            "define-device-self-say",
            "Self is the sum of the durations of everything that the operator itself launched, each in full "
            "even if they overlap. The total includes the operators that it calls. Totals of recursive "
            "operators count twice.",
        ),
    ),
    Term(
        Text("define-host-self", "Host self, total"),
        Text(
            "define-host-self-say",
            "The total is the operator's duration on the host; self excludes the operators and runtime calls "
            "inside it.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking by name, and that by shapes if they were recorded."""
    operators = report.result("operators", Operators)
    if operators is None or not operators.rows:
        return
    on_device = any(row.device_self_ns for row in operators.rows)
    title = TITLE if on_device else _HOST_TITLE
    yield Section(
        "operators",
        title,
        tables=(_table("operators", operators.rows, top, on_device),),
        topic=Topic.OPERATORS,
        terms=_TERMS,
    )
    by_shape = report.result("operators_by_shape", OperatorsByShape)
    if by_shape is not None and any(row.input_shapes for row in by_shape.rows):
        table = _table("operators_by_shape", by_shape.rows, top, on_device, shapes=True)
        yield Section("operators-by-shape", _BY_SHAPE, tables=(table,), topic=Topic.OPERATORS, is_detail=True)


def _table(name: str, rows: tuple[Any, ...], top: int, on_device: bool, *, shapes: bool = False) -> SectionTable:
    """The first rows, with the share of each in the sum over all rows."""
    ranked = "device_self_ns" if on_device else "host_self_ns"
    whole = sum(getattr(row, ranked) for row in rows)
    figures = (*_DEVICE, *_HOST) if on_device else (_HOST[0], _HOST_SHARE, _HOST[1])
    columns = [_NAME, *([_SHAPES] if shapes else []), _CALLS, *(column for column, _ in figures)]
    shown = []
    for row in rows[:top]:
        values = [
            (getattr(row, ranked) / whole if whole else None) if field == "share" else getattr(row, field)
            for _, field in figures
        ]
        shown.append((row.name, *([row.input_shapes] if shapes else []), row.calls, *values))
    return SectionTable(name, tuple(columns), tuple(shown), len(rows))
