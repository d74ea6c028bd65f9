"""Sections on fixed and new findings, and on rows that became slower or faster, appeared or disappeared."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats.difference.labels import STATUS
from traceanalyzer.formats.words import word
from traceanalyzer.report.difference import Change, Cost, Difference, FindingChange, Ranking
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Section, SectionColumn, SectionTable

_FINDINGS = Text("diff-findings-title", "Findings")
_FINDING_COLUMNS = (
    SectionColumn(Text("diff-finding-status", "Status"), ""),
    SectionColumn(Text("diff-finding-rule", "Finding"), "", is_name=True),
    SectionColumn(Text("diff-finding-low", "Predicted from"), "ns"),
    SectionColumn(Text("diff-finding-high", "to", "upper end of an interval"), "ns"),
    SectionColumn(Text("diff-finding-direct", "Saved on resource"), "ns"),
)
_TITLES = {
    "operators": Text("diff-operators-title", "Operators, self time per step"),
    "operators_by_shape": Text("diff-by-shape-title", "Operators by input shapes, self time per step"),
    "kernels": Text("diff-kernels-title", "Kernels, time per step"),
    "kernels_by_operator": Text("diff-by-operator-title", "Kernels by the operator that launches them"),
    "modules": Text("diff-modules-title", "Modules, self time per step"),
}
_ON_SCREEN = ("operators", "kernels")
_SAME = Text("diff-rows-same", "{count:count} others did not change.", one="{count:count} other did not change.")

_STATUS = SectionColumn(Text("diff-row-status", "Status"), "")
_NAME = SectionColumn(Text("diff-row-name", "Name"), "", is_name=True)
_SHAPES = SectionColumn(Text("diff-row-shapes", "Input shapes"), "", is_name=True)
_OWNER = SectionColumn(Text("diff-row-operator", "Operator"), "", is_name=True)
_CALLS = (
    SectionColumn(Text("diff-row-calls-base", "Calls before"), "number", is_extra=True),
    SectionColumn(Text("diff-row-calls-head", "Calls after"), "number", is_extra=True),
)
_DEVICE = (
    SectionColumn(Text("diff-row-device-base", "Device before"), "ns"),
    SectionColumn(Text("diff-row-device-head", "after"), "ns"),
    SectionColumn(Text("diff-row-device", "change"), "ns"),
)
_HOST = (
    SectionColumn(Text("diff-row-host-base", "Host before"), "ns", is_extra=True),
    SectionColumn(Text("diff-row-host-head", "after"), "ns", is_extra=True),
    SectionColumn(Text("diff-row-host", "Host change"), "ns"),
)


def findings(difference: Difference, top: int) -> Iterator[Section]:
    """Build the table of fixed, new and remaining findings, with predicted savings."""
    if not difference.findings:
        return
    messages = (difference.prediction.message,) if difference.prediction is not None else ()
    rows = tuple(map(_finding, difference.findings))
    table = SectionTable("diff_findings", _FINDING_COLUMNS, rows[:top], len(rows))
    yield Section("findings", _FINDINGS, messages=messages, tables=(table,), is_essential=True)


def _finding(change: FindingChange) -> tuple[object, ...]:
    low, high = change.predicted_wall_ns or (None, None)
    return word(STATUS, change.status), change.rule, low, high, change.measured_direct_ns


def rankings(difference: Difference, top: int) -> Iterator[Section]:
    """Build all rankings with changes."""
    for ranking in difference.rankings:
        if ranking.rows:
            yield Section(
                f"diff-{ranking.key}",
                word(_TITLES, ranking.key),
                messages=(_SAME(count=ranking.same),) if ranking.same else (),
                tables=(_ranking(ranking, top),),
                is_detail=ranking.key not in _ON_SCREEN,
            )


def _ranking(ranking: Ranking, top: int) -> SectionTable:
    """Table of one ranking without empty columns."""
    columns = (_STATUS, _NAME, _SHAPES, _OWNER, *_CALLS, *_DEVICE, *_HOST)
    rows = [_row(change) for change in ranking.rows[:top]]
    kept = [i for i in range(len(columns)) if any(row[i] not in (None, "", 0) for row in rows)]
    shown = tuple(tuple(row[i] for i in kept) for row in rows)
    return SectionTable(f"diff_{ranking.key}", tuple(columns[i] for i in kept), shown, len(ranking.rows))


def _row(change: Change) -> tuple[object, ...]:
    base, head = change.base, change.head
    return (
        word(STATUS, change.status),
        change.name,
        change.detail,
        change.owner,
        *(_of(change, side, "calls") for side in (base, head)),
        *(_of(change, side, "device_ns") for side in (base, head)),
        change.device_change_ns,
        *(_of(change, side, "host_ns") for side in (base, head)),
        change.host_change_ns,
    )


def _of(change: Change, side: Cost | None, field: str) -> float | None:
    """Time on one side: 0 for a row that does not occur, None for a row that may only be missing in a printed table."""
    if side is None:
        other = change.head if change.base is None else change.base
        return None if change.status == "not-printed" or getattr(other, field, None) is None else 0.0
    value: float | None = getattr(side, field)
    return value
