"""Which sequences of kernels repeat?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from traceanalyzer.analyzers.kernels.repeated_layers import RepeatedLayer, RepeatedLayers
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.sections.kernel_classes import class_label

TITLE = Text("repeated-layers-title", "Repeated layers")
_PARTS_SHOWN = 24
_SAID_ROWS = 3
_SEVERAL = Text("repeated-layers-several", "{what} ×{count}", "part of a list of kernels: copy ×3")
_REST = Text("repeated-layers-rest", "{count:count} more", "end of a list of kernels", one="{count:count} more")
_PARTS = Text("repeated-layers-parts", "{parts}", "a list of kinds of kernels in the order in which they run")
_SAID = Text(
    "repeated-layers-said",
    "{times:count} times: {parts}.",
    "parts is a list of kinds of kernels in the order in which they run: 36 times: normalization, matrix products, ...",
    one="{times:count} time: {parts}.",
)
_FIRST = Text("repeated-layers-first", "The second table has the kernels of the first sequence in their order.")
_SHORT = {
    "gemm": Text("layer-part-gemm", "product", "part of a list of kernels: a matrix product"),
    "moe": Text("layer-part-moe", "experts' product", "part of a list of kernels: a product of a mixture of experts"),
    "moe_routing": Text("layer-part-moe-routing", "routing", "part of a list of kernels: which expert gets what"),
    "convolution": Text("layer-part-convolution", "convolution", "part of a list of kernels"),
    "attention": Text("layer-part-attention", "attention", "part of a list of kernels"),
    "recurrent": Text("layer-part-recurrent", "recurrence", "part of a list of kernels"),
    "normalization": Text("layer-part-normalization", "norm", "part of a list of kernels"),
    "elementwise": Text("layer-part-elementwise", "elementwise", "part of a list of kernels"),
    "reduction": Text("layer-part-reduction", "reduction", "part of a list of kernels"),
    "copy": Text("layer-part-copy", "copy", "part of a list of kernels"),
    "embedding": Text("layer-part-embedding", "embedding", "part of a list of kernels"),
    "pooling": Text("layer-part-pooling", "pooling", "part of a list of kernels"),
    "sorting": Text("layer-part-sorting", "sorting", "part of a list of kernels"),
    "sampling": Text("layer-part-sampling", "sampling", "part of a list of kernels"),
    "linear_algebra": Text("layer-part-linear-algebra", "linear algebra", "part of a list of kernels"),
    "communication": Text("layer-part-communication", "communication", "part of a list of kernels"),
    "optimizer": Text("layer-part-optimizer", "optimizer", "part of a list of kernels"),
    "triton": Text("layer-part-triton", "generated", "part of a list of kernels: made by a compiler, kind unknown"),
    "other": Text("layer-part-other", "unknown", "part of a list of kernels: nothing is known of its kind"),
}
_NUMBER = SectionColumn(Text("repeated-layers-number", "No.", "number of a row"), "count")
_TIMES = SectionColumn(Text("repeated-layers-times", "Times", "how often the sequence comes"), "count")
_KERNELS = SectionColumn(Text("repeated-layers-kernels", "Kernels", "number of kernels of one repetition"), "count")
_MEAN = SectionColumn(Text("repeated-layers-mean", "Each", "mean time of one repetition"), "ns")
_TOTAL = SectionColumn(Text("repeated-layers-total", "Total"), "ns")
_SHARE = SectionColumn(Text("repeated-layers-share", "Share"), "share", has_bar=True)
_WHAT = SectionColumn(Text("repeated-layers-what", "Kernels in their order"), "")
_NAME = SectionColumn(Text("repeated-layers-kernel", "Kernel of the first sequence"), "", is_name=True)
_KIND = SectionColumn(Text("repeated-layers-kind", "Kind of work"), "")
_TERMS = (
    Term(
        Text("define-repeated-layers", "Repeated layers"),
        Text(
            "define-repeated-layers-say",
            "Sequences of kernels that come at least three times in a row on one stream, in a launch of a graph or in "
            "a step. They are found from the names of the kernels alone.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of sequences, and one of the kernels of the first."""
    found = report.result("repeated_layers", RepeatedLayers)
    if found is None or not found.rows:
        return
    columns = (_NUMBER, _TIMES, _KERNELS, _MEAN, _TOTAL, _SHARE, _WHAT)
    rows = tuple(
        (number, row.repetitions, len(row.kernels), row.mean_ns, row.total_ns, row.share, _PARTS(parts=_parts(row)))
        for number, row in enumerate(found.rows[:top], 1)
    )
    first = found.rows[0]
    kernels = tuple(
        (
            number,
            kernel.name,
            class_label(kernel.kernel_class),
            kernel.total_ns / first.repetitions,
            kernel.total_ns / first.total_ns if first.total_ns else None,
        )
        for number, kernel in enumerate(first.kernels[:top], 1)
    )
    yield Section(
        "repeated-layers",
        TITLE,
        messages=(*(_SAID(times=row.repetitions, parts=_parts(row)) for row in found.rows[:_SAID_ROWS]), _FIRST()),
        tables=(
            SectionTable("repeated_layers", columns, rows, len(found.rows)),
            SectionTable("repeated_layers_first", (_NUMBER, _NAME, _KIND, _MEAN, _SHARE), kernels, len(first.kernels)),
        ),
        topic=Topic.KERNELS,
        terms=_TERMS,
        is_detail=True,
    )


def _parts(row: RepeatedLayer) -> tuple[Message, ...]:
    """The kinds of kernels in order, with equal neighbours merged."""
    parts = [(name, len(list(same))) for name, same in groupby(kernel.kernel_class for kernel in row.kernels)]
    shown = [_part(name, count) for name, count in parts[:_PARTS_SHOWN]]
    hidden = sum(count for _, count in parts[_PARTS_SHOWN:])
    return (*shown, _REST(count=hidden)) if hidden else tuple(shown)


def _part(name: str, count: int) -> Message:
    known = word(_SHORT, name)
    what = known() if isinstance(known, Text) else known
    return _SEVERAL(count=count, what=what) if count > 1 else what
