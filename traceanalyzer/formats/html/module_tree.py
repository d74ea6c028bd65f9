"""Prepares the tree of modules as a flat sequence of opening and closing elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer.analyzers.modules import Modules, Place
from traceanalyzer.formats.html.cells import Name, name_of
from traceanalyzer.formats.html.detail import PageDetail
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report

_CALLS = Text("tree-calls", "{count:count} calls", one="{count:count} call")
_DEVICE = Text("tree-device", "{time:ns} on the device")
_HOST = Text("tree-host", "{time:ns} on the host")
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


def build(report: Report, language: Language, detail: PageDetail) -> ModuleTree | None:
    """Prepare the tree of modules; None without one."""
    modules = report.result("modules", Modules)
    if modules is None or len(modules.tree) < 2:
        return None
    tree = modules.tree
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
