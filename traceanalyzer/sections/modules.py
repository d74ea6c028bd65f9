"""Which modules cost most, and how do they nest?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.modules import Module, ModuleClass, Modules, Place
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("modules-title", "Modules")
_CLASSES = Text("modules-classes-title", "Modules by class")
_TREE = Text("modules-tree-title", "Tree of modules")
_UNATTRIBUTED = Text(
    "modules-unattributed",
    "{functions:count} functions of the backward pass ({device:ns} on the device) belong to no module.",
    one="{functions:count} function of the backward pass ({device:ns} on the device) belongs to no module.",
)
_NAME = SectionColumn(Text("modules-name", "Module"), "", is_name=True)
_CLASS = SectionColumn(Text("modules-class", "Class"), "", is_name=True)
_COUNT = SectionColumn(Text("modules-count", "Modules", "how many modules of a class"), "count")
_CALLS = SectionColumn(Text("modules-calls", "Calls"), "count")
_DEVICE = (
    (SectionColumn(Text("modules-device-self", "Device self"), "ns"), "device_self_ns"),
    (SectionColumn(Text("modules-device-total", "Device total"), "ns"), "device_total_ns"),
)
_DEVICE_BACKWARD = (
    (SectionColumn(Text("modules-backward-device-self", "Backward self"), "ns"), "backward_device_self_ns"),
    (SectionColumn(Text("modules-backward-device-total", "Backward total"), "ns"), "backward_device_total_ns"),
)
_HOST = (
    (SectionColumn(Text("modules-host-self", "Host self"), "ns"), "host_self_ns"),
    (SectionColumn(Text("modules-host-total", "Host total"), "ns"), "host_total_ns"),
)
_HOST_BACKWARD = (
    (SectionColumn(Text("modules-backward-host-total", "Backward host"), "ns"), "backward_host_total_ns"),
)
_INDENT = "· "
_DEEPEST = 100
"""Most indentation levels; deeper rows are indented as much."""
_TERMS = (
    Term(
        Text("define-modules", "Modules"),
        Text(
            "define-modules-say",
            "Work belongs to the innermost module whose call launched it. The backward pass belongs to the "
            "module whose forward pass it belongs to.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the rankings by class and by module, and the top of the tree."""
    modules = report.result("modules", Modules)
    if modules is None or not modules.rows:
        return
    messages = tuple(_messages(modules))
    if len(modules.classes) < len(modules.rows):
        table = _table("modules_by_class", modules, modules.classes[:top], len(modules.classes))
        yield Section(
            "modules-by-class", _CLASSES, messages=messages, tables=(table,), topic=Topic.MODULES, is_detail=True
        )
        messages = ()
    table = _table("modules", modules, modules.rows[:top], len(modules.rows))
    yield Section(
        "modules", TITLE, messages=messages, tables=(table,), topic=Topic.MODULES, terms=_TERMS, is_detail=True
    )
    places = _outermost(modules.tree, top)
    table = _table("modules_tree", modules, places, len(modules.tree))
    yield Section("modules-tree", _TREE, tables=(table,), topic=Topic.MODULES, is_detail=True, is_tree=True)


def _messages(modules: Modules) -> Iterator[Message]:
    both = (modules.backward_outside, modules.backward_unlinked)
    functions = sum(part.functions for part in both)
    if functions:
        yield _UNATTRIBUTED(functions=functions, device=sum(part.device_ns for part in both))


def _outermost(tree: tuple[Place, ...], top: int) -> tuple[Place, ...]:
    """The `top` outermost places, in the order of the tree, which show the structure of the model."""
    chosen = sorted(range(len(tree)), key=lambda row: (tree[row].depth, row))[:top]
    return tuple(tree[row] for row in sorted(chosen))


_Row = Module | ModuleClass | Place


def _table(name: str, modules: Modules, rows: tuple[_Row, ...], total: int) -> SectionTable:
    backward = any(row.backward_functions for row in modules.rows)
    device = (*_DEVICE, *(_DEVICE_BACKWARD if backward else ())) if modules.device_ns else ()
    figures = (*device, *_HOST, *(_HOST_BACKWARD if backward else ()))
    first = (_CLASS, _COUNT) if name == "modules_by_class" else (_NAME,)
    shown = tuple((*_label(row), row.calls, *(getattr(row, field) for _, field in figures)) for row in rows)
    return SectionTable(name, (*first, _CALLS, *(column for column, _ in figures)), shown, total)


def _label(row: _Row) -> tuple[str | int, ...]:
    if isinstance(row, ModuleClass):
        return row.name, row.modules
    return (_INDENT * min(row.depth, _DEEPEST) + row.name if isinstance(row, Place) else row.name,)
