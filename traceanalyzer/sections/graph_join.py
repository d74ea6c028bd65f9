"""Where does the time of graphs go, according to the captures that they were joined with?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.kernels import KernelsByOperator
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.analyzers.launches.graph_join import GraphJoin
from traceanalyzer.analyzers.launches.graph_join.tables import (
    JoinedLines,
    JoinedModules,
    JoinedOperators,
    JoinedOperatorsByShape,
)
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.sections import roofline

_OPERATORS = Text("joined-operators-title", "Operators in graphs (joined)", "joined with the capture of the graphs")
_BY_SHAPE = Text("joined-shapes-title", "Operators in graphs by input shapes (joined)")
_KERNELS = Text("joined-kernels-title", "Kernels in graphs by operator (joined)")
_CLASSES = Text("joined-classes-title", "Modules in graphs by class (joined)")
_MODULES = Text("joined-modules-title", "Modules in graphs (joined)")
_TREE = Text("joined-tree-title", "Tree of modules in graphs (joined)")
_LINES = Text("joined-lines-title", "Python lines of graphs (joined)")
_ROOFLINE = Text("joined-roofline-title", "Operators in graphs against the device's limits (joined)")
_JOINED = Text(
    "joined-share",
    "{launches:count} launches of graphs took {graph:ns} on the device; {share:share} of it is joined with the "
    "operators of {names}.",
    "names are names of files",
    one="{launches:count} launch of a graph took {graph:ns} on the device; {share:share} of it is joined with the "
    "operators of {names}.",
)
_UNATTRIBUTED = Text("joined-unattributed", "{device:ns} of it was captured outside of every operator.")
_OUTSIDE = Text("joined-outside", "{device:ns} was captured outside of every module.")
_NO_LINE = Text("joined-no-line", "{device:ns} was captured where no line of Python was recorded.")
_TERM = Term(
    Text("define-joined", "Joined"),
    Text(
        "define-joined-say",
        "Times are those of the kernels in this trace; operators, shapes, modules and lines are those of the recording "
        "in which the graph was captured. A call counts once for each launch of its graph.",
    ),
)
_NAME = SectionColumn(Text("joined-operator", "Operator"), "", is_name=True)
_KERNEL = SectionColumn(Text("joined-kernel", "Kernel"), "", is_name=True)
_MODULE = SectionColumn(Text("joined-module", "Module"), "", is_name=True)
_CLASS = SectionColumn(Text("joined-class", "Class"), "", is_name=True)
_LINE = SectionColumn(Text("joined-line", "Line"), "", is_name=True)
_SHAPES = SectionColumn(Text("joined-input-shapes", "Input shapes"), "", is_name=True)
_CALLS = SectionColumn(Text("joined-calls", "Calls"), "count")
_SELF = SectionColumn(Text("joined-self", "Device self"), "ns")
_SHARE = SectionColumn(Text("joined-self-share", "Share"), "share", has_bar=True)
_TOTAL = SectionColumn(Text("joined-total", "Device total"), "ns", is_extra=True)
_TIME = SectionColumn(Text("joined-time", "Total"), "ns")
_MEAN = SectionColumn(Text("joined-mean", "Mean"), "ns")
_FIGURES = (_CALLS, _SELF, _SHARE, _TOTAL)
_INDENT = "· "
_DEEPEST = 100
"""Most indentation levels; deeper rows are indented as much."""


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of the joined time, first by operator."""
    join = report.result("graph_join", GraphJoin)
    if join is None or not join.joined_kernels:
        return
    names = ", ".join(capture.name for capture in join.captures if capture.accepted)
    told = _JOINED(launches=join.launches, graph=join.graph_ns, share=join.joined_share, names=names)
    yield from _operators(report, join, told, top)
    yield from _modules(report, join, top)
    yield from _lines(report, join, top)
    if (found := report.result("joined_roofline", Roofline)) is not None and found.rows:
        yield roofline.section_of(found, top, "joined-roofline", _ROOFLINE)


def _operators(report: Report, join: GraphJoin, told: Message, top: int) -> Iterator[Section]:
    operators = report.result("joined_operators", JoinedOperators)
    if operators is not None:
        others = (_UNATTRIBUTED(device=operators.unattributed_ns),) if operators.unattributed_ns else ()
        table = _table("joined_operators", (_NAME, *_FIGURES), _rows(operators.rows, join), top)
        yield Section(
            "joined-operators",
            _OPERATORS,
            messages=(told, *others),
            tables=(table,),
            topic=Topic.OPERATORS,
            terms=(_TERM,),
        )
    by_shape = report.result("joined_operators_by_shape", JoinedOperatorsByShape)
    if by_shape is not None and any(row.input_shapes for row in by_shape.rows):
        rows = [(row.name, row.input_shapes, *_figures(row, join)) for row in by_shape.rows]
        table = _table("joined_operators_by_shape", (_NAME, _SHAPES, *_FIGURES), rows, top)
        yield Section("joined-operators-by-shape", _BY_SHAPE, tables=(table,), topic=Topic.OPERATORS, is_detail=True)
    kernels = report.result("joined_kernels_by_operator", KernelsByOperator)
    if kernels is not None and any(row.operator for row in kernels.rows):
        rows = [(row.name, row.operator, row.calls, row.total_ns, row.mean_ns) for row in kernels.rows]
        table = _table("joined_kernels_by_operator", (_KERNEL, _NAME, _CALLS, _TIME, _MEAN), rows, top)
        yield Section("joined-kernels-by-operator", _KERNELS, tables=(table,), topic=Topic.KERNELS, is_detail=True)


def _modules(report: Report, join: GraphJoin, top: int) -> Iterator[Section]:
    modules = report.result("joined_modules", JoinedModules)
    if modules is None or not modules.rows:
        return
    outside = (_OUTSIDE(device=modules.outside_device_ns),) if modules.outside_device_ns else ()
    table = _table("joined_modules_by_class", (_CLASS, *_FIGURES), _rows(modules.classes, join), top)
    yield Section(
        "joined-modules-by-class", _CLASSES, messages=outside, tables=(table,), topic=Topic.MODULES, is_detail=True
    )
    table = _table("joined_modules", (_MODULE, *_FIGURES), _rows(modules.rows, join), top)
    yield Section("joined-modules", _MODULES, tables=(table,), topic=Topic.MODULES, is_detail=True)
    places = sorted(range(len(modules.tree)), key=lambda row: (modules.tree[row].depth, row))[:top]
    chosen = [modules.tree[row] for row in sorted(places)]
    rows = [
        (
            _INDENT * min(place.depth, _DEEPEST) + place.name,
            place.calls,
            place.device_total_ns,
            place.device_total_ns / join.joined_ns if join.joined_ns else None,
            place.device_self_ns,
        )
        for place in chosen
    ]
    columns = (_MODULE, _CALLS, _TOTAL, _SHARE, _SELF)
    table = SectionTable("joined_modules_tree", columns, tuple(rows), len(modules.tree))
    yield Section("joined-modules-tree", _TREE, tables=(table,), topic=Topic.MODULES, is_detail=True)


def _lines(report: Report, join: GraphJoin, top: int) -> Iterator[Section]:
    lines = report.result("joined_python_lines", JoinedLines)
    if lines is None or not lines.rows:
        return
    others = (_NO_LINE(device=lines.unattributed_device_ns),) if lines.unattributed_device_ns else ()
    table = _table("joined_python_lines", (_LINE, *_FIGURES), _rows(lines.rows_outside_torch or lines.rows, join), top)
    yield Section("joined-python-lines", _LINES, messages=others, tables=(table,), topic=Topic.HOST, is_detail=True)


def _rows(rows: tuple[Any, ...], join: GraphJoin) -> list[tuple[Any, ...]]:
    return [(row.name, *_figures(row, join)) for row in rows]


def _figures(row: Any, join: GraphJoin) -> tuple[Any, ...]:
    """Calls, own time, its share of all joined time, and the total time."""
    share = row.device_self_ns / join.joined_ns if join.joined_ns else None
    return row.calls, row.device_self_ns, share, row.device_total_ns


def _table(name: str, columns: tuple[SectionColumn, ...], rows: list[tuple[Any, ...]], top: int) -> SectionTable:
    return SectionTable(name, columns, tuple(rows[:top]), len(rows))
