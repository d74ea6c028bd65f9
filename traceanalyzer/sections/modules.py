"""Which modules and lines of Python cost most, and how do the modules nest?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from traceanalyzer.analyzers.modules import Modules, Place
from traceanalyzer.analyzers.modules.graph_lines import LinesOfGraphs
from traceanalyzer.analyzers.modules.labels import LabelledGraphs, LabelledPlace
from traceanalyzer.analyzers.modules.of_graphs import JoinedPlace
from traceanalyzer.analyzers.modules.python_lines import PythonLines
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, table

TITLE = Text("modules-title", "Modules")
_CLASSES = Text("modules-classes-title", "Modules by class")
TREE_TITLE = Text("modules-tree-title", "Tree of modules")
_UNATTRIBUTED = Text(
    "modules-unattributed",
    "{functions:count} functions of the backward pass ({device:ns} on the device) belong to no module.",
    one="{functions:count} function of the backward pass ({device:ns} on the device) belongs to no module.",
)
_LABELS = Text("modules-labels-title", "Modules of graphs, as the program labelled their kernels")
_LABELS_TREE = Text("modules-labels-tree-title", "Tree of modules of graphs")
_UNLABELLED = Text("modules-unlabelled", "Graphs launched {device:ns} of device time without a label.")
_LABEL = Column(Text("modules-label", "Label", "what the program called some kernels"), "", "label", is_name=True)
_EVENTS = Column(Text("modules-label-events", "Events", "number of kernels, copies and fills"), "count", "events")
_GRAPH_LINES = Text("lines-graphs-title", "Python lines that made the kernels of graphs")
_UNLABELLED_LINES = Text("lines-graphs-none", "Graphs launched {device:ns} of device time whose line is not known.")
_LINES = Text("lines-title", "Python lines by device self time")
_LINES_BY_HOST = Text("lines-host-title", "Python lines by CPU self time")
_LINES_OUTSIDE = Text("lines-outside-title", "Python lines outside of torch")
_NO_LINE = Text(
    "lines-unattributed", "For {share:share} of the device time, the line that launched it was not recorded."
)
_NO_LINE_KNOWN = Text(
    "lines-unknown",
    "For {share:share} of the device time no line is known: neither one that launched it nor, for a backward pass, one "
    "of its forward pass.",
)
_DEVICE = (columns.DEVICE_SELF, columns.DEVICE_TOTAL)
_DEVICE_BACKWARD = (columns.BACKWARD_SELF, columns.BACKWARD_TOTAL)
_LINE_BACKWARD = (columns.BACKWARD_SELF, replace(columns.BACKWARD_TOTAL, is_extra=True))
_HOST = (columns.HOST_SELF, columns.HOST_TOTAL)
_HOST_BACKWARD = (Column(Text("modules-backward-host-total", "Backward CPU"), "ns", "backward_host_total_ns"),)
_CLASS_COLUMNS = (
    columns.CLASS,
    Column(Text("modules-count", "Modules", "how many modules of a class"), "count", "modules"),
)
_INDENT = "· "
_DEEPEST = 100
"""Most indentation levels; deeper rows are indented as much."""
TREE = columns.MODULE.of(lambda place: _INDENT * min(place.depth, _DEEPEST) + place.name)
"""The column of the names of modules in a tree, indented by their depth."""
_TERMS = (
    Term(
        TITLE,
        Text(
            "define-modules-say",
            "Work belongs to the innermost module whose call launched it. The backward pass belongs to the "
            "module whose forward pass it belongs to.",
        ),
    ),
)

_Place = TypeVar("_Place", Place, JoinedPlace, LabelledPlace)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the rankings by class and by module, and the top of the tree."""
    modules = report.result("modules", Modules)
    if modules is None or not modules.rows:
        return
    messages, figures = tuple(_messages(modules)), _figures(modules)
    if len(modules.classes) < len(modules.rows):
        rows = table("modules_by_class", (*_CLASS_COLUMNS, *figures), modules.classes, top)
        yield detail("modules-by-class", _CLASSES, Topic.MODULES, (rows,), messages=messages)
        messages = ()
    rows = table("modules", (columns.MODULE, *figures), modules.rows, top)
    yield detail("modules", TITLE, Topic.MODULES, (rows,), messages=messages, terms=_TERMS)
    places = outermost(modules.tree, top)
    rows = table("modules_tree", (TREE, *figures), places, total=len(modules.tree))
    yield Section("modules-tree", TREE_TITLE, tables=(rows,), topic=Topic.MODULES, is_detail=True, is_tree=True)


def build_labels(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking and the tree of what the program called the kernels of graphs."""
    found = report.result("labelled_graphs", LabelledGraphs)
    if found is None or not found.tree:
        return
    ranked = sorted((row for row in found.tree if row.events), key=lambda row: (-row.device_self_ns, row.label))
    messages = (_UNLABELLED(device=found.unlabelled_ns),) if found.unlabelled_ns else ()
    share = columns.share("device_self_ns", found.labelled_ns)
    rows = table("labelled_graphs", (_LABEL, _EVENTS, columns.DEVICE_SELF, share), ranked, top)
    yield detail("labelled-graphs", _LABELS, Topic.MODULES, (rows,), messages=messages)
    places = outermost(found.tree, top)
    rows = table("labelled_graphs_tree", (TREE, _EVENTS, *_DEVICE), places, total=len(found.tree))
    yield Section(
        "labelled-graphs-tree", _LABELS_TREE, tables=(rows,), topic=Topic.MODULES, is_detail=True, is_tree=True
    )


def build_graph_lines(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking of lines that made the kernels of graphs."""
    found = report.result("graph_lines", LinesOfGraphs)
    if found is None or not found.rows:
        return
    messages = (_UNLABELLED_LINES(device=found.unattributed_ns),) if found.unattributed_ns else ()
    share = columns.share("device_self_ns", found.attributed_ns)
    rows = table("graph_lines", (columns.LINE, _EVENTS, *_DEVICE, share), found.rows, top)
    yield detail("graph-lines", _GRAPH_LINES, Topic.HOST, (rows,), messages=messages)


def _messages(modules: Modules) -> Iterator[Message]:
    both = (modules.backward_outside, modules.backward_unlinked)
    functions = sum(part.functions for part in both)
    if functions:
        yield _UNATTRIBUTED(functions=functions, device=sum(part.device_ns for part in both))


def outermost(tree: Sequence[_Place], top: int) -> tuple[_Place, ...]:
    """The `top` outermost places, in the order of the tree, which show the structure of the model."""
    chosen = sorted(range(len(tree)), key=lambda row: (tree[row].depth, row))[:top]
    return tuple(tree[row] for row in sorted(chosen))


def _figures(modules: Modules) -> tuple[Column, ...]:
    """The columns of calls and times; those of the backward pass only if some is known to belong to a module."""
    backward = any(row.backward_functions for row in modules.rows)
    device = (*_DEVICE, *(_DEVICE_BACKWARD if backward else ())) if modules.device_ns else ()
    return (columns.CALLS, *device, *_HOST, *(_HOST_BACKWARD if backward else ()))


def build_lines(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking of lines without torch's own code, and that with it."""
    lines = report.result("python_lines", PythonLines)
    if lines is None or not lines.rows:
        return
    backward = lines.backward_device_ns or 0
    device = (*_DEVICE, *(_LINE_BACKWARD if backward else ())) if lines.device_ns else ()
    figures = (columns.LINE, columns.CALLS, *device, *_HOST)
    share = (lines.unattributed_device_ns - backward) / lines.device_ns if lines.device_ns else 0.0
    messages = ((_NO_LINE_KNOWN if backward else _NO_LINE)(share=share),) if share else ()
    if lines.rows_outside_torch:
        rows = table("python_lines_outside_torch", figures, lines.rows_outside_torch, top)
        yield detail("python-lines-outside-torch", _LINES_OUTSIDE, Topic.HOST, (rows,), messages=messages)
        messages = ()
    title = _LINES if lines.device_ns else _LINES_BY_HOST
    rows = table("python_lines", figures, lines.rows, top)
    yield detail("python-lines", title, Topic.HOST, (rows,), messages=messages)
