"""Tables of the page and its tree of modules, in a level of detail: what is too large is rendered again with less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.modules import Modules, Place
from traceanalyzer.formats import spreadsheet
from traceanalyzer.formats.html.figures import no_break
from traceanalyzer.formats.html.repeats import folded
from traceanalyzer.formats.language import Language
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten
from traceanalyzer.report.section import SectionColumn, SectionTable

LIMIT = 1_500_000
"""Most bytes of a page, which must open quickly and fit into mail and chat."""

ROWS = 200
"""Most rows of each ranking; further rows are counted."""


@dataclass(frozen=True)
class PageDetail:
    """Limits of all parts whose size depends on the trace."""

    rows: int
    name: int
    """Most characters of a full name."""
    slices: int
    """Most slices of the timeline, longest first."""
    places: int
    """Most places of the tree of modules, outermost first."""
    findings: int


def stages(top: int | None) -> tuple[PageDetail, ...]:
    """Levels of detail, from complete to one that always fits."""
    rows = ROWS if top is None else top
    full = PageDetail(rows=rows, name=2000, slices=20_000, places=1000, findings=100)
    return (
        full,
        PageDetail(rows=rows, name=2000, slices=6000, places=1000, findings=100),
        PageDetail(rows=rows, name=400, slices=6000, places=400, findings=100),
        PageDetail(rows=rows, name=160, slices=3000, places=200, findings=100),
        PageDetail(rows=min(rows, 100), name=160, slices=3000, places=200, findings=60),
        PageDetail(rows=min(rows, 50), name=160, slices=1500, places=100, findings=40),
        PageDetail(rows=min(rows, 20), name=160, slices=800, places=50, findings=20),
        PageDetail(rows=min(rows, 5), name=80, slices=200, places=10, findings=5),
    )


_MORE_ROWS = Text(
    "html-more-rows",
    "{shown:count} of {total:count} rows. All of them:",
    one="{shown:count} of {total:count} rows. All of them:",
)
NAME_WIDTH = 72
"""Most characters of a name in a table; a click shows the full name."""


@dataclass(frozen=True)
class Name:
    """A name in the trace: shortened, with the full name if that differs."""

    short: str
    full: str | None


@dataclass(frozen=True)
class HtmlCell:
    """One cell of a table: a name, or a text with its raw value."""

    name: Name | None
    text: str
    raw: str | None
    """Raw value of a number; null for texts and unknown values."""
    bar: str | None
    """Length of a bar in percent, for shares."""


@dataclass(frozen=True)
class Head:
    """The head of one column."""

    title: str
    csv: str
    """Title of the column with the unit of the raw values, for CSV."""
    is_number: bool
    is_name: bool


@dataclass(frozen=True)
class HtmlGrid:
    """A table with all cells and heads prepared."""

    id: str
    title: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[HtmlCell, ...], ...]
    more: str | None
    """A note on rows that are left out."""
    is_uniform: bool
    """Whether all values of a column have one unit, so that it can be sorted."""


def name_of(text: str, detail: PageDetail, width: int = NAME_WIDTH) -> Name:
    """Make an untrusted name safe to show."""
    safe = clean(text)
    short = shorten(safe, width)
    return Name(short, None if short == safe else shorten(safe, detail.name))


def grid(table: SectionTable, title: str, language: Language, detail: PageDetail) -> HtmlGrid:
    """Lay out a table of a section, without the columns of which nothing is known."""
    known = [i for i in range(len(table.columns)) if not i or any(units.is_known(row[i]) for row in table.rows)]
    heads = tuple(_head(table.columns[i], table, language) for i in known)
    rows = tuple(
        tuple(_cell(row[i], table.unit(number, i), table.columns[i], language, detail) for i in known)
        for number, row in enumerate(table.rows)
    )
    shown = len(rows)
    total = table.total_rows
    more = language.text(_MORE_ROWS, shown=shown, total=total) if shown < total else None
    return HtmlGrid(f"table-{table.id.replace('_', '-')}", title, heads, rows, more, not table.row_units)


def _head(column: SectionColumn, table: SectionTable, language: Language) -> Head:
    csv = spreadsheet.column_head(column, table, language)
    return Head(clean(language.text(column.title)), csv, column.unit not in ("", "bool"), column.is_name)


def _cell(value: Any, unit: str, column: SectionColumn, language: Language, detail: PageDetail) -> HtmlCell:
    if column.is_name and value is not None and not isinstance(value, Text | Message):
        return HtmlCell(name_of(str(value), detail), "", None, None)
    text = shorten(clean(language.quantity(value, unit)), detail.name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and unit != ""
    bar = f"{100 * min(1, max(0, value)):.1f}" if column.has_bar and is_number else None
    return HtmlCell(
        None, no_break(text) if is_number else text, repr(spreadsheet.number(value, unit)) if is_number else None, bar
    )


_CALLS = Text("tree-calls", "{count:count} calls", one="{count:count} call")
_DEVICE = Text("tree-device", "{time:ns} on the device")
_HOST = Text("tree-cpu", "{time:ns} on the CPU")
_DEEPEST = 40
_OPEN = 2
"""Number of levels that are initially expanded."""


@dataclass(frozen=True)
class Node:
    """One module in the tree."""

    name: Name
    calls: str
    time: str
    bar: str
    """Length of its bar in percent of the whole tree."""
    has_children: bool
    is_open: bool
    closes: int
    """Number of levels that end after it."""


@dataclass(frozen=True)
class ModuleTree:
    """The tree of modules, the outermost ones first."""

    nodes: tuple[Node, ...]
    total: int


def module_tree(report: Report, language: Language, detail: PageDetail) -> ModuleTree | None:
    """Prepare the tree of modules; None without one."""
    modules = report.result("modules", Modules)
    if modules is None or len(modules.tree) < 2:
        return None
    tree = folded(modules.tree)
    shallow = [row for row in range(len(tree)) if tree[row].depth < _DEEPEST]
    shown = sorted(sorted(shallow, key=lambda row: (tree[row].depth, row))[: detail.places])
    return ModuleTree(tuple(_nodes([tree[row] for row in shown], modules, language, detail)), len(tree))


def _nodes(places: list[Place], modules: Modules, language: Language, detail: PageDetail) -> Iterator[Node]:
    on_device = modules.device_ns > 0
    times = [_time(place, on_device) for place in places]
    whole = sum(time for time, place in zip(times, places, strict=True) if place.depth == 0) or 1
    following = [*(place.depth for place in places[1:]), 0]
    for place, time, following_depth in zip(places, times, following, strict=True):
        yield Node(
            name_of(place.name, detail),
            language.text(_CALLS, count=place.calls),
            language.text(_DEVICE if on_device else _HOST, time=time),
            f"{min(100.0, 100 * time / whole):.1f}",
            following_depth > place.depth,
            place.depth < _OPEN,
            max(0, place.depth - following_depth),
        )


def _time(place: Place, on_device: bool) -> int:
    """Time of a place in both passes, in ns."""
    if on_device:
        return place.device_total_ns + place.backward_device_total_ns
    return place.host_total_ns + place.backward_host_total_ns
