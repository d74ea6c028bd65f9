"""How long does work wait between launch and start, and where does the time of graphs go that were joined?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from traceanalyzer.analyzers.kernels import KernelsByOperator
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.launches.graph_join import GraphJoin
from traceanalyzer.analyzers.modules.of_graphs import JoinedLines, JoinedModules
from traceanalyzer.analyzers.operators.of_graphs import JoinedOperators, JoinedOperatorsByShape
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, table
from traceanalyzer.sections.kernels import roofline_section
from traceanalyzer.sections.modules import TREE, outermost

TITLE = Text("launches-title", "Launches")
_QUEUES = Text("launches-queues-title", "Launch queues")
_GRAPHS_LEFT_OUT = Text(
    "launches-graphs",
    "{launches:count} graph launches started {kernels:count} kernels, {share:share} of kernel time; the figures "
    "about single launches do not include them.",
    one="{launches:count} graph launch started {kernels:count} kernels, {share:share} of kernel time; the figures "
    "about single launches do not include them.",
)
_UNLINKED = Text(
    "launches-unlinked",
    "{count:count} kernels have no launch in the trace and are left out.",
    one="{count:count} kernel has no launch in the trace and is left out.",
)
_BLOCKED = Text(
    "launches-blocked",
    "{calls:count} calls waited {time:ns} in total because the queue was full ({length:count} launches or more).",
    one="{calls:count} call waited {time:ns} because the queue was full ({length:count} launches or more).",
)
_COUNT = Column(Text("launches-kernels", "Kernels launched one by one"), "count", "launched_kernels")
_FIGURES = (
    Column(Text("launches-call", "Launch call, median"), "ns", "median_call_ns"),
    Column(Text("launches-delay-median", "Launch delay, median"), "ns", "delay.median_ns"),
    Column(Text("launches-delay-p95", "Launch delay, 95th percentile"), "ns", "delay.p95_ns"),
    Column(Text("launches-delay-max", "Launch delay, maximum"), "ns", "delay.max_ns"),
    Column(Text("launches-short", "Kernels shorter than their launch call"), "share", "short_kernels.calls_share"),
    Column(Text("launches-short-share", "Their share of these kernels' time"), "share", "short_kernels.time_share"),
)
_BY_KERNEL = (
    columns.KERNEL,
    columns.CALLS,
    Column(Text("launches-kernel-total", "Delay"), "ns", "total_ns"),
    columns.MEDIAN,
    Column(Text("launches-kernel-p95", "95th percentile"), "ns", "p95_ns"),
    columns.MAXIMUM,
    Column(Text("launches-kernel-short", "Shorter than launch"), "count", "shorter_than_launch"),
)
_BY_STREAM = (
    columns.GPU,
    columns.STREAM,
    Column(Text("launches-queue-launches", "Launches"), "count", "launches"),
    Column(Text("launches-queue-mean", "Mean length"), "number", "mean_length"),
    Column(Text("launches-queue-max", "Longest"), "count", "max_length"),
)
_REPEATED = Text("launches-graphs-title", "Repetitions of graphs")
_BY_GRAPH = optional(
    known,
    columns.KERNEL.of("first_kernel"),
    Column(Text("launches-graph-kernels", "Kernels", "of one repetition of a graph"), "count", "kernels"),
    Column(Text("launches-graph-repetitions", "Repetitions"), "count", "repetitions"),
    columns.MEDIAN,
    Column(Text("launches-graph-shortest", "Shortest"), "ns", "shortest_ns"),
    Column(Text("launches-graph-longest", "Longest"), "ns", "longest_ns"),
    Column(Text("launches-graph-gap", "Gap", "between two repetitions of a graph, median"), "ns", "median_gap_ns"),
    Column(Text("launches-graph-first", "First call", "duration of the first launch call"), "ns", "first_call_ns"),
    Column(Text("launches-graph-later", "Later calls", "median duration of the launch calls"), "ns", "median_call_ns"),
)
_TERMS = (
    Term(
        Text("define-delay", "Launch delay"),
        Text(
            "define-delay-say",
            "From the end of the launch call to the start of the kernel. Long delays mean that work queues up, "
            "which is good for a GPU.",
        ),
    ),
)

_OPERATORS = Text("joined-operators-title", "Operators in graphs (joined)", "joined with the capture of the graphs")
_BY_SHAPE = Text("joined-shapes-title", "Operators in graphs by input shapes (joined)")
_KERNELS_JOINED = Text("joined-kernels-title", "Kernels in graphs by operator (joined)")
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
_JOINED_TERM = Term(
    Text("define-joined", "Joined"),
    Text(
        "define-joined-say",
        "Times are those of the kernels in this trace; operators, shapes, modules and lines are those of the trace "
        "in which the graph was captured. A call counts once for each launch of its graph.",
    ),
)
_EXTRA_TOTAL = replace(columns.DEVICE_TOTAL, is_extra=True)
_KERNEL_COLUMNS = (columns.KERNEL, columns.OPERATOR.of("operator"), columns.CALLS, columns.TOTAL, columns.MEAN)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of launch delays, of the kernels that wait longest, and of the queues."""
    launches = report.result("launches", LaunchFigures)
    if launches is None:
        return
    delays = table("launch_delays", _BY_KERNEL, launches.by_kernel, top)
    yield detail(
        "launches",
        TITLE,
        Topic.HOST,
        (delays,) if delays.rows else (),
        messages=_messages(launches),
        facts=facts((_COUNT, *(_FIGURES if launches.delay is not None else ())), launches),
        terms=_TERMS,
    )
    if launches.graphs.repeated:
        graphs = table("graph_repetitions", _BY_GRAPH, launches.graphs.repeated, top)
        yield detail("graph-repetitions", _REPEATED, Topic.HOST, (graphs,))
    if launches.queues:
        queues = table("launch_queues", _BY_STREAM, launches.queues, top)
        yield detail("launch-queues", _QUEUES, Topic.HOST, (queues,))


def _messages(launches: LaunchFigures) -> Iterator[Message]:
    graphs, blocked = launches.graphs, launches.blocked
    if graphs.launches:
        yield _GRAPHS_LEFT_OUT(launches=graphs.launches, kernels=graphs.kernels, share=graphs.kernel_share)
    if launches.unlinked_kernels:
        yield _UNLINKED(count=launches.unlinked_kernels)
    if blocked.calls:
        yield _BLOCKED(calls=blocked.calls, time=blocked.time_ns, length=blocked.full_length)


def build_joined(report: Report, top: int) -> Iterator[Section]:
    """Build tables of the time of graphs that is joined with their captures, first by operator."""
    join = report.result("graph_join", GraphJoin)
    if join is None or not join.joined_kernels:
        return
    figures = (columns.CALLS, columns.DEVICE_SELF, columns.share("device_self_ns", join.joined_ns), _EXTRA_TOTAL)
    yield from _joined_operators(report, join, figures, top)
    yield from _joined_modules(report, join, figures, top)
    lines = report.result("joined_python_lines", JoinedLines)
    if lines is not None and lines.rows:
        others = (_NO_LINE(device=lines.unattributed_device_ns),) if lines.unattributed_device_ns else ()
        rows = table("joined_python_lines", (columns.LINE, *figures), lines.rows_outside_torch or lines.rows, top)
        yield detail("joined-python-lines", _LINES, Topic.HOST, (rows,), messages=others)
    roofline = report.result("joined_roofline", Roofline)
    if roofline is not None and roofline.rows:
        yield roofline_section(roofline, top, "joined-roofline", _ROOFLINE)


def _joined_operators(report: Report, join: GraphJoin, figures: tuple[Column, ...], top: int) -> Iterator[Section]:
    operators = report.result("joined_operators", JoinedOperators)
    if operators is not None:
        names = ", ".join(capture.name for capture in join.captures if capture.accepted)
        whole = _JOINED(launches=join.launches, graph=join.graph_ns, share=join.joined_share, names=names)
        others = (_UNATTRIBUTED(device=operators.unattributed_ns),) if operators.unattributed_ns else ()
        yield Section(
            "joined-operators",
            _OPERATORS,
            messages=(whole, *others),
            tables=(table("joined_operators", (columns.OPERATOR, *figures), operators.rows, top),),
            topic=Topic.OPERATORS,
            terms=(_JOINED_TERM,),
        )
    by_shape = report.result("joined_operators_by_shape", JoinedOperatorsByShape)
    if by_shape is not None and any(row.input_shapes for row in by_shape.rows):
        shown = (columns.OPERATOR, columns.INPUT_SHAPES, *figures)
        rows = table("joined_operators_by_shape", shown, by_shape.rows, top)
        yield detail("joined-operators-by-shape", _BY_SHAPE, Topic.OPERATORS, (rows,))
    kernels = report.result("joined_kernels_by_operator", KernelsByOperator)
    if kernels is not None and any(row.operator for row in kernels.rows):
        rows = table("joined_kernels_by_operator", _KERNEL_COLUMNS, kernels.rows, top)
        yield detail("joined-kernels-by-operator", _KERNELS_JOINED, Topic.KERNELS, (rows,))


def _joined_modules(report: Report, join: GraphJoin, figures: tuple[Column, ...], top: int) -> Iterator[Section]:
    modules = report.result("joined_modules", JoinedModules)
    if modules is None or not modules.rows:
        return
    outside = (_OUTSIDE(device=modules.outside_device_ns),) if modules.outside_device_ns else ()
    total_share = columns.share("device_total_ns", join.joined_ns)
    tree = (columns.CALLS, _EXTRA_TOTAL, total_share, columns.DEVICE_SELF)
    tables = (
        table("joined_modules_by_class", (columns.CLASS, *figures), modules.classes, top),
        table("joined_modules", (columns.MODULE, *figures), modules.rows, top),
        table("joined_modules_tree", (TREE, *tree), outermost(modules.tree, top), total=len(modules.tree)),
    )
    for shown, title in zip(tables, (_CLASSES, _MODULES, _TREE), strict=True):
        messages, id_ = (outside if title is _CLASSES else ()), shown.id.replace("_", "-")
        yield detail(id_, title, Topic.MODULES, (shown,), messages=messages)
