"""What kind of work does the GPU do?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("kernel-classes-title", "Kernels by kind of work")
_UNEXPLAINED = Text(
    "kernel-classes-unexplained",
    "{share:share} of kernel time ({time:ns}) is in kernels whose names do not show what they do.",
)
_CLASS = SectionColumn(Text("kernel-classes-class", "Class"), "")
_KERNELS = SectionColumn(Text("kernel-classes-kernels", "Kernels", "number of distinct kernel names"), "count")
_CALLS = SectionColumn(Text("kernel-classes-calls", "Calls"), "count")
_TOTAL = SectionColumn(Text("kernel-classes-total", "Total"), "ns")
_SHARE = SectionColumn(Text("kernel-classes-share", "Share"), "share", has_bar=True)
_GENERATED = SectionColumn(
    Text("kernel-classes-generated", "Generated", "time of kernels that a compiler generated"), "ns", is_extra=True
)
_LONGEST = SectionColumn(Text("kernel-classes-longest", "Longest kernel"), "", is_name=True)
_NAME = SectionColumn(Text("kernel-classes-name", "Unexplained kernel"), "", is_name=True)

_LABELS = {
    "gemm": Text("kernel-class-gemm", "Matrix products"),
    "moe": Text("kernel-class-moe", "Mixture of experts: products"),
    "moe_routing": Text("kernel-class-moe-routing", "Mixture of experts: routing"),
    "convolution": Text("kernel-class-convolution", "Convolution"),
    "attention": Text("kernel-class-attention", "Fused attention"),
    "recurrent": Text("kernel-class-recurrent", "Recurrent, state space"),
    "normalization": Text("kernel-class-normalization", "Normalization"),
    "elementwise": Text("kernel-class-elementwise", "Elementwise"),
    "reduction": Text("kernel-class-reduction", "Reduction, softmax"),
    "copy": Text("kernel-class-copy", "Copy, layout, fill"),
    "embedding": Text("kernel-class-embedding", "Embedding lookup"),
    "pooling": Text("kernel-class-pooling", "Pooling, resampling"),
    "sorting": Text("kernel-class-sorting", "Sorting, selection, scan"),
    "sampling": Text("kernel-class-sampling", "Token sampling"),
    "linear_algebra": Text("kernel-class-linear-algebra", "FFT, solvers"),
    "communication": Text("kernel-class-communication", "Communication"),
    "optimizer": Text("kernel-class-optimizer", "Optimizer, lists of tensors"),
    "triton": Text(
        "kernel-class-triton",
        "Generated, kind not named",
        "kernels that a compiler generated under names that tell nothing",
    ),
    "other": Text("kernel-class-other", "Other"),
}
_TERMS = (
    Term(
        Text("define-classes", "Kind of work"),
        Text(
            "define-classes-say",
            "Inferred from the names of kernels, except for collectives that the trace describes. Kernels whose name "
            "does not show their kind are Other. Generated is the part that a compiler made, such as Inductor.",
        ),
    ),
)


def class_label(name: str) -> Text | Message:
    """The text of a class; its name if a later version added it."""
    return word(_LABELS, name)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of classes, and one of unclassified names."""
    found = report.result("kernel_classes", KernelClasses)
    if found is None or not (found.rows or found.unexplained):
        return
    columns: tuple[SectionColumn, ...] = (_CLASS, _KERNELS, _CALLS, _TOTAL, _SHARE, _LONGEST)
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (class_label(row.name), row.kernels, row.calls, row.total_ns, row.share, row.longest) for row in found.rows
    )
    if any(row.generated_ns for row in found.rows):  # only nonempty columns
        columns = (*columns[:5], _GENERATED, *columns[5:])
        rows = tuple((*row[:5], known.generated_ns, *row[5:]) for row, known in zip(rows, found.rows, strict=True))
    messages: tuple[Message, ...] = ()
    tables = [SectionTable("kernel_classes", columns, rows, len(rows))]
    if found.unexplained_ns:
        messages = (_UNEXPLAINED(share=found.unexplained_share, time=found.unexplained_ns),)
        names = tuple((row.name, row.calls, row.total_ns, row.share) for row in found.unexplained[:top])
        tables.append(SectionTable("kernel_classes_unexplained", (_NAME, _CALLS, _TOTAL, _SHARE), names, len(names)))
    yield Section(
        "kernel-classes",
        TITLE,
        messages=messages,
        tables=tuple(tables),
        topic=Topic.KERNELS,
        terms=_TERMS,
        is_detail=True,
    )
