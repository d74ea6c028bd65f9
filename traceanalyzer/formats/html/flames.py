"""Flame graphs of time and of memory on the page: data for the script, and a static picture of the widest frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from traceanalyzer.analyzers.host.flame_frames import FlameFrames
from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.analyzers.memory.peak_picture import HeldFrame, HeldStacks
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.formats.charts import Chart, Curves
from traceanalyzer.formats.flame_files import TITLES, frame_with_place
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.language import Language, unit_names
from traceanalyzer.formats.report_charts import KIND_ROLES
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, code_place, shorten, word
from traceanalyzer.report.section import Section, Term
from traceanalyzer.sections.memory_snapshot import KIND_LABELS

_TONES = {
    "mark": "other",
    "module": "memcpy",
    "function": "communication",
    "library": "memset",
    "backward": "memcpy",
    "autograd": "memcpy",
    "operator": "cpu-exec",
    "call": "runtime",
    "kernel": "kernel",
}
_SEVERAL = "waiting"
_STEPS = Text("flames-steps", "{count:count} typical steps together.", one="The typical step.")
_SOME_STEPS = Text("flames-some-steps", "The first {count:count} of {all:count} typical steps together.")
_RECORDING = Text("flames-whole-trace", "The whole trace.")
TERMS = (
    Term(
        Text("define-flames", "Flame graph"),
        Text(
            "define-flames-say",
            "Each bar is a part of the program, as wide as its time, below what called it. Bars are in the order of "
            "their first occurrence, and calls of one part from one place are one bar.",
        ),
    ),
)
_HELD = Text("flames-held", "Memory of {device} at its peak", "title of a flame graph; device is GPU0 and the like")
_HELD_SAY = Text("flames-held-say", "What lives at the peak, by kind and by the stack that allocated it.")
_DUMPED = Text("flames-dumped", "Memory of {device} at the dump", "title of a flame graph; device is GPU0 and the like")
_DUMPED_SAY = Text("flames-dumped-say", "What is held at the dump, by kind and by the stack that allocated it.")
HELD_TERMS = (
    Term(
        Text("define-held-flames", "Flame graph of memory"),
        Text(
            "define-held-flames-say",
            "Each bar is a part of the program, as wide as the bytes that it allocated and that live at the peak, "
            "below what called it and what the blocks hold.",
        ),
    ),
)
_PLACES = {"own": "communication", "library": "memset", "native": "cpu-exec"}
"""Tones of the frames of stacks that hold memory."""
_HOLDERS = {"memory-snapshot": "memory-lines", "memory": "memory-at-peak"}
"""Sections that say who holds a peak, by the section of its curve."""
_LEAST = 0.004
"""Least share of the static picture that a bar has (own choice: some pixels)."""
_LABELLED = 0.03
_MOST_LEVELS = 40
_MOST_DEVICES = 4


@dataclass(frozen=True)
class FlameBar:
    """One bar of the static picture; numbers are in percent and pixels."""

    x: str
    y: int
    width: str
    tone: str
    label: str | None


@dataclass(frozen=True)
class FlamePicture:
    """One flame graph as a static picture."""

    title: str
    height: int
    bars: tuple[FlameBar, ...]


@dataclass(frozen=True)
class _Graph:
    """One flame graph as columns: a row for each frame, depth first."""

    title: str
    frame: tuple[int, ...]
    depth: tuple[int, ...]
    size: tuple[int, ...]
    """Width of each row: its time or its bytes."""
    count: tuple[int, ...]
    unit: str
    curve: str = ""
    """The chart whose peak it is about, by its id."""


@dataclass(frozen=True)
class Flames:
    """All flame graphs of the page."""

    message: str
    terms: tuple[Term, ...]
    pictures: tuple[FlamePicture, ...]
    data: dict[str, Any]


def build(report: Report, language: Language, detail: PageDetail) -> Flames | None:
    """Prepare the flame graphs; None without any."""
    names: list[str] = []
    tones: list[str] = []
    graphs = [*_of_time(report, language, detail, names, tones), *_of_memory(report, language, detail, names, tones)]
    if not graphs:
        return None
    found = report.result("flame_frames", FlameFrames)
    return Flames(
        language.say(_time(found) if found is not None and graphs[0].unit == "ns" else _memory_said(report)),
        _terms(graphs),
        tuple(_picture(graph, names, tones) for graph in graphs),
        {
            "names": names,
            "tones": tones,
            "units": {unit: unit_names(language.unmarked, unit) for unit in dict.fromkeys(one.unit for one in graphs)},
            "graphs": [vars(graph) for graph in graphs],
        },
    )


def _terms(graphs: Sequence[_Graph]) -> tuple[Term, ...]:
    units = {graph.unit for graph in graphs}
    return (*(TERMS if "ns" in units else ()), *(HELD_TERMS if "bytes" in units else ()))


def _of_time(
    report: Report, language: Language, detail: PageDetail, names: list[str], tones: list[str]
) -> Iterator[_Graph]:
    """Graphs of the time of the host and of devices, whose frames are the first ones."""
    found = report.result("flame_frames", FlameFrames)
    if found is None:
        return
    names += [shorten(frame_with_place(owner), min(200, detail.name)) for owner in found.frames]
    tones += ["dataloader" if owner.role == "loader" else _TONES.get(owner.kind, "other") for owner in found.frames]
    for graph in found.graphs:
        if graph.ns:
            title = language.text(word(TITLES, graph.quantity))
            yield _Graph(title, graph.frame, graph.depth, graph.ns, graph.count, "ns")


def _of_memory(
    report: Report, language: Language, detail: PageDetail, names: list[str], tones: list[str]
) -> Iterator[_Graph]:
    """Graphs of what holds the peak of each device."""
    for name, held, is_peak in list(_held(report))[:_MOST_DEVICES]:
        if held is not None and held.held_bytes:
            first = len(names)
            names += [shorten(_held_name(frame, language.unmarked), min(200, detail.name)) for frame in held.frames]
            tones += [_held_tone(frame) for frame in held.frames]
            numbers = tuple(first + frame if 0 <= frame < len(held.frames) else -1 for frame in held.frame)
            title = language.text(_HELD if is_peak else _DUMPED, device=clean(name))
            curve = f"chart-memory-{clean(name).lower()}"
            yield _Graph(title, numbers, held.depth, held.held_bytes, held.count, "bytes", curve)


def linked(drawn: Iterable[tuple[str, Chart]], shown: Iterable[Section]) -> list[tuple[str, Chart]]:
    """Charts with the sections that own them; the mark of a peak leads to who holds it."""
    ids = {section.id for section in shown}
    return [(owner, _linked(chart, _HOLDERS.get(owner, ""), ids)) for owner, chart in drawn]


def _linked(chart: Chart, holders: str, ids: set[str]) -> Chart:
    if not isinstance(chart, Curves) or not chart.mark or not holders:
        return chart
    return replace(chart, mark_link=f"#section-{holders}" if holders in ids else "#flames")


def way_back(drawn: Iterable[tuple[str, Chart]], anchor: str) -> str:
    """The address of the curve whose peak leads to this place; empty if none does."""
    owners = (owner for owner, chart in drawn if isinstance(chart, Curves) and chart.mark_link == f"#{anchor}")
    owner = next(owners, "")
    return owner and f"#section-{owner}"


def _held(report: Report) -> Iterator[tuple[str, HeldStacks | None, bool]]:
    """What holds the peak of each device, by a snapshot or a trace; of a snapshot without a history its dump."""
    snapshot, used = report.result("memory_snapshot", MemorySnapshotUse), report.result("memory", MemoryUse)
    if snapshot is not None:
        yield from ((f"GPU{device.device}", device.stacks, device.has_history) for device in snapshot.devices)
    if used is not None:
        yield from ((device.device, device.stacks, True) for device in used.devices)


def _memory_said(report: Report) -> Message:
    is_peak = any(is_peak for _, held, is_peak in _held(report) if held is not None)
    return _HELD_SAY() if is_peak else _DUMPED_SAY()


def _held_name(frame: HeldFrame, language: Language) -> str:
    if frame.place == "kind":
        return language.text(KIND_LABELS[frame.name]) if frame.name in KIND_LABELS else clean(frame.name)
    place = code_place(frame.file, frame.line)
    return clean(frame.name) if place is None else f"{clean(frame.name)} ({place})"


def _held_tone(frame: HeldFrame) -> str:
    if frame.place == "kind":
        return KIND_ROLES.get(frame.name, "other").replace("_", "-")
    return _PLACES.get(frame.place, "other")


def _time(found: FlameFrames) -> Message:
    if found.steps is None:
        return _RECORDING()
    if found.typical_steps is not None and found.steps < found.typical_steps:
        return _SOME_STEPS(count=found.steps, all=found.typical_steps)
    return _STEPS(count=found.steps)


def _placed(graph: _Graph) -> Iterator[tuple[int, int]]:
    """Row and start of each frame: after those before it below the same frame."""
    free: list[int] = [0]
    for row, (depth, size) in enumerate(zip(graph.depth, graph.size, strict=True)):
        del free[depth + 1 :]
        start = free[depth] if depth < len(free) else free[-1]
        free[depth:] = [start + size, start]
        yield row, start


def _picture(graph: _Graph, names: list[str], tones: list[str]) -> FlamePicture:
    whole = sum(size for size, depth in zip(graph.size, graph.depth, strict=True) if depth == 0) or 1
    bars = []
    for row, start in _placed(graph):
        share = graph.size[row] / whole
        frame = graph.frame[row]
        depth = graph.depth[row]
        if share >= _LEAST and depth < _MOST_LEVELS:
            known = 0 <= frame < len(names)
            bars.append(
                FlameBar(
                    f"{100 * start / whole:.2f}",
                    16 * depth,
                    f"{100 * share:.2f}",
                    tones[frame] if known else _SEVERAL,
                    names[frame] if known and share >= _LABELLED else None,
                )
            )
    return FlamePicture(graph.title, 16 + max((bar.y for bar in bars), default=0), tuple(bars))
