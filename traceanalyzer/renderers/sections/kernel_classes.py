"""What kind of work does the GPU do?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.kernel_classes import KernelClasses
from traceanalyzer.renderers.words import word
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
_LONGEST = SectionColumn(Text("kernel-classes-longest", "Longest kernel"), "", is_name=True)
_NAME = SectionColumn(Text("kernel-classes-name", "Unexplained kernel"), "", is_name=True)

_LABELS = {
    "gemm": Text("kernel-class-gemm", "Matrix products"),
    "convolution": Text("kernel-class-convolution", "Convolution"),
    "attention": Text("kernel-class-attention", "Fused attention"),
    "normalization": Text("kernel-class-normalization", "Normalization"),
    "elementwise": Text("kernel-class-elementwise", "Elementwise"),
    "reduction": Text("kernel-class-reduction", "Reduction, softmax"),
    "copy": Text("kernel-class-copy", "Copy, layout, fill"),
    "communication": Text("kernel-class-communication", "Communication"),
    "optimizer": Text("kernel-class-optimizer", "Optimizer, lists of tensors"),
    "triton": Text("kernel-class-triton", "Triton"),
    "other": Text("kernel-class-other", "Other"),
}
_TERMS = (
    Term(
        Text("define-classes", "Kind of work"),
        Text(
            "define-classes-say",
            "Derived from the kernel's name. Kernels whose name does not show their kind count as Other.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """One table of classes, and one of the names that are in none."""
    found = report.result("kernel_classes", KernelClasses)
    if found is None or not (found.rows or found.unexplained):
        return
    columns = (_CLASS, _KERNELS, _CALLS, _TOTAL, _SHARE, _LONGEST)
    rows = tuple(
        (word(_LABELS, row.name), row.kernels, row.calls, row.total_ns, row.share, row.longest) for row in found.rows
    )
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
