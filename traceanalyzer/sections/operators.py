"""Which operators cost most?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers.operators import Operator, OperatorByShape, Operators, OperatorsByShape
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, table
from traceanalyzer.sections.in_steps import InSteps, in_steps

TITLE = Text("operators-title", "Operators by device self time")
_HOST_TITLE = Text("operators-host-title", "Operators by CPU self time")
_BY_SHAPE = Text("operators-by-shape-title", "Operators by input shapes")
_TOTALS = tuple(replace(column, is_extra=True) for column in (columns.DEVICE_TOTAL, columns.HOST_TOTAL))
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
        Text("define-host-self", "CPU self, total"),
        Text(
            "define-host-self-say",
            "The total is the operator's duration on the CPU; self excludes the operators and runtime calls inside it.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking by name, and that by shapes if they were recorded."""
    operators = report.result("operators", Operators)
    if operators is None or not operators.rows:
        return
    on_device = any(row.device_self_ns for row in operators.rows)
    rows, figures = _ranked(operators.rows, in_steps(report, operators, "name"), on_device=on_device)
    yield Section(
        "operators",
        TITLE if on_device else _HOST_TITLE,
        tables=(table("operators", (columns.OPERATOR, *figures), rows, top),),
        topic=Topic.OPERATORS,
        terms=_TERMS,
    )
    by_shape = report.result("operators_by_shape", OperatorsByShape)
    if by_shape is not None and any(row.input_shapes for row in by_shape.rows):
        steps = in_steps(report, by_shape, "name", "input_shapes", "input_types")
        rows, figures = _ranked(by_shape.rows, steps, on_device=on_device)
        shown = (columns.OPERATOR, columns.INPUT_SHAPES, *figures)
        yield detail("operators-by-shape", _BY_SHAPE, Topic.OPERATORS, (table("operators_by_shape", shown, rows, top),))


def _ranked(
    rows: Sequence[Operator | OperatorByShape], steps: InSteps, *, on_device: bool
) -> tuple[Sequence[Operator | OperatorByShape], tuple[Column, ...]]:
    """The rows in order, and the columns of calls and times, with the share of each row in the sum over all rows."""
    ranked = columns.DEVICE_SELF if on_device else columns.HOST_SELF
    others = (_TOTALS[0], columns.HOST_SELF, _TOTALS[1]) if on_device else (_TOTALS[1],)
    calls, time, *rest = steps.sums(columns.CALLS, ranked, *others)
    shares = columns.share(time.cell, fsum(map(time.value, rows)))
    return steps.ranked(rows, ranked), (calls, time, shares, *rest, *steps.in_all(columns.CALLS, ranked))
