"""Which kernels cost most, what kind of work do they do, which repeat, and how close do they come to the peak?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers.kernels import Kernels, KernelsByOperator
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.kernels.repeated_layers import RepeatedLayer, RepeatedLayers
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import word
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, table
from traceanalyzer.sections.in_steps import in_steps

TITLE = Text("kernels-title", "Kernels")
_BY_OPERATOR = Text("kernels-by-operator-title", "Kernels by operator")
_KIND = columns.KIND_OF_WORK.of(lambda row: class_label(row.kernel_class) if row.kernel_class else None)
_FIGURES = (
    columns.MEAN,
    replace(columns.MIN, is_extra=True),
    replace(columns.MAX, is_extra=True),
    Column(Text("kernels-blocks", "Blocks per SM"), "number", "mean_blocks_per_sm", is_extra=True),
    Column(columns.OCCUPANCY, "share", "mean_est_achieved_occupancy", is_extra=True),
    Column(columns.TENSOR_CORES, "bool", "tensor_cores", is_extra=True),
    replace(_KIND, is_extra=True, if_any=bool),
)
_FUSED = Column(
    Text("kernels-fused", "Fused operators", "operators that a compiler made one kernel of"),
    "",
    lambda row: ", ".join(row.fused_operators),
    is_name=True,
    is_extra=True,
)
_SOURCE = Column(
    Text("kernels-source", "Generated file", "path of the code of a generated kernel"),
    "",
    lambda row: row.source_file or "",
    is_name=True,
    is_extra=True,
)
_NODES = Column(Text("kernels-graph-nodes", "Graph nodes"), "count", "graph_nodes", is_extra=True, if_any=bool)
_BY_OPERATOR_COLUMNS = (
    columns.KERNEL,
    columns.OPERATOR.of("operator"),
    Column(Text("kernels-grid", "Grid"), "", lambda row: row.grid or None),
    Column(Text("kernels-block", "Block"), "", lambda row: row.block or None),
    columns.CALLS,
    columns.TOTAL,
    columns.MEAN,
)
_TERMS = (
    Term(
        TITLE,
        Text(
            "define-kernels-say",
            "Every kernel of the trace counts, inside or outside of a step; for figures per step and for means only "
            "those that start in typical steps. Means of blocks per SM and occupancy are weighted by duration.",
        ),
    ),
)
_CLASSES = Text("kernel-classes-title", "Kernels by kind of work")
_UNEXPLAINED = Text(
    "kernel-classes-unexplained",
    "{share:share} of the recorded kernel time ({time:ns}) is in kernels whose names do not show what they do.",
)
_CLASS = Column(Text("kernel-classes-class", "Class"), "", lambda row: class_label(row.name))
_NUMBER_OF_KERNELS = Column(
    Text("kernel-classes-kernels", "Kernels", "number of distinct kernel names"), "count", "kernels"
)
_GENERATED = Column(
    Text("kernel-classes-generated", "Generated", "time of kernels that a compiler generated"),
    "ns",
    "generated_ns",
    is_extra=True,
    if_any=bool,
)
_LONGEST_KERNEL = Column(Text("kernel-classes-longest", "Longest kernel"), "", "longest", is_name=True)
_NAME = Column(Text("kernel-classes-name", "Unexplained kernel"), "", "name", is_name=True)

_LABELS = {
    "gemm": Text("kernel-class-gemm", "Matrix multiplications"),
    "moe": Text("kernel-class-moe", "Mixture of experts: matrix multiplications"),
    "moe_routing": Text("kernel-class-moe-routing", "Mixture of experts: routing"),
    "convolution": Text("kernel-class-convolution", "Convolution"),
    "attention": Text("kernel-class-attention", "Fused attention"),
    "recurrent": Text("kernel-class-recurrent", "Recurrent, state space"),
    "normalization": Text("kernel-class-normalization", "Normalization"),
    "elementwise": Text("kernel-class-elementwise", "Elementwise"),
    "dequantization": Text("kernel-class-dequantization", "Dequantization of weights"),
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
_CLASS_TERMS = (
    Term(
        columns.KIND_OF_WORK.title,
        Text(
            "define-classes-say",
            "Inferred from the names of kernels, except for collectives that the trace describes. Kernels whose name "
            "does not show their kind are Other. Generated is the part that a compiler made, such as Inductor.",
        ),
    ),
)
_LAYERS = Text("repeated-layers-title", "Repeated layers")
_PARTS_SHOWN = 24
_SAID_ROWS = 3
_SEVERAL_PARTS = Text("repeated-layers-several", "{what} ×{count}", "part of a list of kernels: copy ×3")
_MORE_PARTS = Text("repeated-layers-rest", "{count:count} more", "end of a list of kernels", one="{count:count} more")
_PARTS = Text("repeated-layers-parts", "{parts}", "a list of kinds of kernels in the order in which they run")
_SAID = Text(
    "repeated-layers-said",
    "{times:count} times: {parts}.",
    "parts is a list of kinds of kernels in the order in which they run: 36 times: normalization, matrix products, ...",
    one="{times:count} time: {parts}.",
)
_FIRST = Text("repeated-layers-first", "The second table has the kernels of the first sequence in their order.")
_SHORT = {
    "gemm": Text("layer-part-gemm", "matrix multiplication", "part of a list of kernels: a matrix product"),
    "moe": Text("layer-part-moe", "experts", "part of a list of kernels: a product of a mixture of experts"),
    "moe_routing": Text("layer-part-moe-routing", "routing", "part of a list of kernels: which expert gets what"),
    "convolution": Text("layer-part-convolution", "convolution", "part of a list of kernels"),
    "attention": Text("layer-part-attention", "attention", "part of a list of kernels"),
    "recurrent": Text("layer-part-recurrent", "recurrence", "part of a list of kernels"),
    "normalization": Text("layer-part-normalization", "norm", "part of a list of kernels"),
    "elementwise": Text("layer-part-elementwise", "elementwise", "part of a list of kernels"),
    "dequantization": Text("layer-part-dequantization", "dequantization", "part of a list of kernels"),
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
_NUMBER = Column(Text("repeated-layers-number", "No.", "number of a row"), "count", lambda row: row[0])
_EACH = Text("repeated-layers-mean", "Each", "mean time of one repetition")
_LAYER_COLUMNS = (
    _NUMBER,
    Column(
        Text("repeated-layers-times", "Times", "how often the sequence comes"), "count", lambda row: row[1].repetitions
    ),
    Column(
        Text("repeated-layers-kernels", "Kernels", "number of kernels of one repetition"),
        "count",
        lambda row: len(row[1].kernels),
    ),
    Column(_EACH, "ns", lambda row: row[1].mean_ns),
    columns.TOTAL.of(lambda row: row[1].total_ns),
    columns.SHARE.of(lambda row: row[1].share),
    Column(Text("repeated-layers-what", "Kernels in their order"), "", lambda row: _PARTS(parts=_parts(row[1]))),
)
_FIRST_COLUMNS = (
    _NUMBER,
    Column(Text("repeated-layers-kernel", "Kernel of the first sequence"), "", lambda row: row[1].name, is_name=True),
    columns.KIND_OF_WORK.of(lambda row: class_label(row[1].kernel_class)),
)
_LAYER_TERMS = (
    Term(
        _LAYERS,
        Text(
            "define-repeated-layers-say",
            "Sequences of kernels that come at least three times in a row on one stream, in a launch of a graph or in "
            "a step. They are found from the names of the kernels alone.",
        ),
    ),
)
_ROOFLINE = Text("roofline-title", "Operators against the device's limits")
_MODELLED = Text(
    "roofline-modelled",
    "{share:share} of device time is in operators whose work can be computed from their input shapes.",
)
_LIMITS = Text("roofline-roof", "Limits of {name}: {source}.", "name of a GPU, title of a data sheet")
_NO_LIMITS = Text(
    "roofline-no-roof",
    "The device is not in the table of data sheets, so rates are shown without a share of the limit.",
)
_BOUNDS = {"compute": Text("roofline-compute", "compute"), "memory": Text("roofline-memory", "memory")}
_LIMIT = Text("roofline-share", "Of the limit")
_ROOFLINE_COLUMNS = (
    columns.OPERATOR,
    columns.INPUT_SHAPES,
    columns.CALLS,
    Column(Text("roofline-device", "Device time"), "ns", "device_ns"),
    Column(Text("roofline-tflops", "TFLOP/s"), "number", "tflops_per_s"),
    Column(Text("roofline-bandwidth", "GB/s"), "number", "gb_per_s"),
    Column(Text("roofline-intensity", "FLOP/byte"), "number", "flops_per_byte"),
    Column(_LIMIT, "share", "roofline_share", has_bar=True),
    Column(
        Text("roofline-bound", "Limited by"),
        "",
        lambda row: word(_BOUNDS, row.bound) if isinstance(row.bound, str) else row.bound,
    ),
)
_ROOFLINE_TERMS = (
    Term(
        _LIMIT,
        Text(
            "define-limit-say",
            "The achieved rate as a share of what the device can reach at the operator's FLOP per byte, "
            "according to its data sheet. FLOPs and bytes are computed from the input shapes.",
        ),
    ),
)


def class_label(name: str) -> Text | Message:
    """The text of a class; its name if a later version added it."""
    return word(_LABELS, name)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking by name, and that by name and operator."""
    kernels = report.result("kernels", Kernels)
    if kernels is None or not kernels.rows:
        return
    steps = in_steps(report, kernels, "name")
    ranked = steps.ranked(kernels.rows, columns.TOTAL)
    calls, total = steps.sums(columns.CALLS, columns.TOTAL)
    shown = (
        columns.KERNEL,
        calls,
        total,
        columns.share(total.cell, fsum(map(total.value, ranked))),
        *steps.figures(*_FIGURES),
        *([_FUSED] if any(row.fused_operators for row in ranked[:top]) else []),
        *([_SOURCE] if any(row.source_file for row in ranked[:top]) else []),
        _NODES,
        *steps.in_all(columns.CALLS, columns.TOTAL),
    )
    rows = table("kernels", shown, ranked, top)
    yield Section("kernels", TITLE, tables=(rows,), topic=Topic.KERNELS, terms=_TERMS)
    by_operator = report.result("kernels_by_operator", KernelsByOperator)
    if by_operator is not None:
        rows = table("kernels_by_operator", _BY_OPERATOR_COLUMNS, by_operator.rows, top)
        yield detail("kernels-by-operator", _BY_OPERATOR, Topic.KERNELS, (rows,))


def build_classes(report: Report, top: int) -> Iterator[Section]:
    """Build a table of kinds of work, and one of the kernels whose names do not show it."""
    classes = report.result("kernel_classes", KernelClasses)
    if classes is None or not (classes.rows or classes.unexplained):
        return
    messages: tuple[Message, ...] = ()
    steps = in_steps(report, classes, "name")
    calls, total = steps.sums(columns.CALLS, columns.TOTAL)
    shares = columns.share(total.cell, fsum(map(total.value, classes.rows)))
    in_all = steps.in_all(columns.CALLS, columns.TOTAL)
    kernels, longest = steps.figures(_NUMBER_OF_KERNELS, _LONGEST_KERNEL)
    shown = (_CLASS, kernels, calls, total, shares, *steps.sums(_GENERATED), longest, *in_all)
    tables = [table("kernel_classes", shown, steps.ranked(classes.rows, columns.TOTAL))]
    if classes.unexplained_ns:
        messages = (_UNEXPLAINED(share=classes.unexplained_share, time=classes.unexplained_ns),)
        unexplained = (_NAME, *(in_all or (columns.CALLS, columns.TOTAL)), columns.SHARE)
        tables.append(table("kernel_classes_unexplained", unexplained, classes.unexplained[:top]))
    yield detail("kernel-classes", _CLASSES, Topic.KERNELS, tables, messages=messages, terms=_CLASS_TERMS)


def build_layers(report: Report, top: int) -> Iterator[Section]:
    """Build a table of sequences, and one of the kernels of the first."""
    layers = report.result("repeated_layers", RepeatedLayers)
    if layers is None or not layers.rows:
        return
    first = layers.rows[0]
    kernels = (
        *_FIRST_COLUMNS,
        Column(_EACH, "ns", lambda row: row[1].total_ns / first.repetitions),
        columns.SHARE.of(lambda row: row[1].total_ns / first.total_ns if first.total_ns else None),
    )
    yield detail(
        "repeated-layers",
        _LAYERS,
        Topic.KERNELS,
        (
            table("repeated_layers", _LAYER_COLUMNS, tuple(enumerate(layers.rows, 1)), top),
            table("repeated_layers_first", kernels, tuple(enumerate(first.kernels, 1)), top),
        ),
        messages=(*(_SAID(times=row.repetitions, parts=_parts(row)) for row in layers.rows[:_SAID_ROWS]), _FIRST()),
        terms=_LAYER_TERMS,
    )


def _parts(row: RepeatedLayer) -> tuple[Message, ...]:
    """The kinds of kernels in order, with equal neighbours merged."""
    parts = [(name, len(list(same))) for name, same in groupby(kernel.kernel_class for kernel in row.kernels)]
    shown = [_part(name, count) for name, count in parts[:_PARTS_SHOWN]]
    hidden = sum(count for _, count in parts[_PARTS_SHOWN:])
    return (*shown, _MORE_PARTS(count=hidden)) if hidden else tuple(shown)


def _part(name: str, count: int) -> Message:
    known = word(_SHORT, name)
    what = known() if isinstance(known, Text) else known
    return _SEVERAL_PARTS(count=count, what=what) if count > 1 else what


def build_roofline(report: Report, top: int) -> Iterator[Section]:
    """Build a table of operators, those with most device time first."""
    roofline = report.result("roofline", Roofline)
    if roofline is None or not roofline.rows:
        return
    yield roofline_section(roofline, top, "roofline", _ROOFLINE)


def roofline_section(roofline: Roofline, top: int, name: str, title: Text) -> Section:
    """The section of one table of operators.

    Args:
        roofline: The operators.
        top: Number of operators to show.
        name: Id of the section.
        title: Its title.
    """
    return detail(
        name,
        title,
        Topic.OPERATORS,
        (table(name.replace("-", "_"), _ROOFLINE_COLUMNS, roofline.rows, top),),
        messages=_of_roofline(roofline),
        terms=_ROOFLINE_TERMS,
    )


def _of_roofline(roofline: Roofline) -> Iterator[Message]:
    yield _MODELLED(share=roofline.modelled_share)
    yield _NO_LIMITS() if roofline.roof is None else _LIMITS(name=roofline.roof.name, source=roofline.roof.source)
