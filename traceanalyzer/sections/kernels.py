"""Which kernels cost most, and who launches them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.kernels import Kernels, KernelsByOperator
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.sections.kernel_classes import class_label

TITLE = Text("kernels-title", "Kernels")
_BY_OPERATOR = Text("kernels-by-operator-title", "Kernels by operator")
_NAME = SectionColumn(Text("kernels-name", "Kernel"), "", is_name=True)
_OPERATOR = SectionColumn(Text("kernels-operator", "Operator"), "", is_name=True)
_CALLS = SectionColumn(Text("kernels-calls", "Calls"), "count")
_TOTAL = SectionColumn(Text("kernels-total", "Total"), "ns")
_SHARE = SectionColumn(Text("kernels-share", "Share"), "share", has_bar=True)
_MEAN = SectionColumn(Text("kernels-mean", "Mean"), "ns")
_LEAST = SectionColumn(Text("kernels-min", "Min"), "ns", is_extra=True)
_MOST = SectionColumn(Text("kernels-max", "Max"), "ns", is_extra=True)
_BLOCKS = SectionColumn(Text("kernels-blocks", "Blocks per SM"), "number", is_extra=True)
_OCCUPANCY = SectionColumn(Text("kernels-occupancy", "Est. occupancy"), "share", is_extra=True)
_TENSOR_CORES = SectionColumn(Text("kernels-tensor-cores", "Tensor cores"), "bool", is_extra=True)
_KIND = SectionColumn(Text("kernels-kind", "Kind of work"), "", is_extra=True)
_FUSED = SectionColumn(
    Text("kernels-fused", "Fused operators", "operators that a compiler made one kernel of"),
    "",
    is_name=True,
    is_extra=True,
)
_SOURCE = SectionColumn(
    Text("kernels-source", "Generated file", "path of the code of a generated kernel"), "", is_name=True, is_extra=True
)
_NODES = SectionColumn(Text("kernels-graph-nodes", "Graph nodes"), "count", is_extra=True)
_GRID = SectionColumn(Text("kernels-grid", "Grid"), "")
_BLOCK = SectionColumn(Text("kernels-block", "Block"), "")
_TERMS = (
    Term(
        Text("define-kernels", "Kernels"),
        Text(
            "define-kernels-say",
            "Every kernel of the trace counts, inside or outside of a step. Means of blocks per SM and "
            "occupancy are weighted by duration.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking by name, and that by name and operator."""
    kernels = report.result("kernels", Kernels)
    if kernels is None or not kernels.rows:
        return
    whole = sum(row.total_ns for row in kernels.rows)
    columns: tuple[SectionColumn, ...] = (
        _NAME,
        _CALLS,
        _TOTAL,
        _SHARE,
        _MEAN,
        _LEAST,
        _MOST,
        _BLOCKS,
        _OCCUPANCY,
        _TENSOR_CORES,
    )
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (
            row.name,
            row.calls,
            row.total_ns,
            row.total_ns / whole if whole else None,
            row.mean_ns,
            row.min_ns,
            row.max_ns,
            row.mean_blocks_per_sm,
            row.mean_est_achieved_occupancy,
            row.tensor_cores,
        )
        for row in kernels.rows[:top]
    )
    for column, cells in _told(kernels, top):
        columns = (*columns, column)
        rows = tuple((*row, cell) for row, cell in zip(rows, cells, strict=True))
    yield Section(
        "kernels",
        TITLE,
        tables=(SectionTable("kernels", columns, rows, len(kernels.rows)),),
        topic=Topic.KERNELS,
        terms=_TERMS,
    )
    by_operator = report.result("kernels_by_operator", KernelsByOperator)
    if by_operator is not None:
        yield Section(
            "kernels-by-operator",
            _BY_OPERATOR,
            tables=(_operators(by_operator, top),),
            topic=Topic.KERNELS,
            is_detail=True,
        )


def _told(kernels: Kernels, top: int) -> Iterator[tuple[SectionColumn, tuple[Any, ...]]]:
    """Columns of facts in kernel names, if any: the kind of work, and the operators that a compiler fused."""
    if any(row.kernel_class for row in kernels.rows):
        labels = (class_label(row.kernel_class) if row.kernel_class else None for row in kernels.rows[:top])
        yield _KIND, tuple(labels)
    if any(row.fused_operators for row in kernels.rows[:top]):
        yield _FUSED, tuple(", ".join(row.fused_operators) for row in kernels.rows[:top])
    if any(row.source_file for row in kernels.rows[:top]):
        yield _SOURCE, tuple(row.source_file or "" for row in kernels.rows[:top])
    if any(row.graph_nodes for row in kernels.rows):
        yield _NODES, tuple(row.graph_nodes for row in kernels.rows[:top])


def _operators(kernels: KernelsByOperator, top: int) -> SectionTable:
    columns = (_NAME, _OPERATOR, _GRID, _BLOCK, _CALLS, _TOTAL, _MEAN)
    rows = tuple(
        (row.name, row.operator, row.grid or None, row.block or None, row.calls, row.total_ns, row.mean_ns)
        for row in kernels.rows[:top]
    )
    return SectionTable("kernels_by_operator", columns, rows, len(kernels.rows))
