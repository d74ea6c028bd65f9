"""Flame graphs on the page: data for the script, and a static picture of the widest frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from traceanalyzer.analyzers.host.flame_frames import FlameFrames, FlameRows
from traceanalyzer.formats.flame_files import TITLES, frame_with_place
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.language import Language, unit_names
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import shorten, word
from traceanalyzer.report.section import Term

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
_LEAST = 0.004
"""Least share of the static picture that a bar has (own choice: some pixels)."""
_LABELLED = 0.03
_MOST_LEVELS = 40


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
class Flames:
    """All flame graphs of the page."""

    message: str
    pictures: tuple[FlamePicture, ...]
    data: dict[str, Any]


def build(report: Report, language: Language, detail: PageDetail) -> Flames | None:
    """Prepare the flame graphs; None without any."""
    found = report.result("flame_frames", FlameFrames)
    graphs = [graph for graph in found.graphs if graph.ns] if found else []
    if found is None or not graphs:
        return None
    names = [shorten(frame_with_place(owner), min(200, detail.name)) for owner in found.frames]
    tones = ["dataloader" if owner.role == "loader" else _TONES.get(owner.kind, "other") for owner in found.frames]
    titles = [language.text(word(TITLES, graph.quantity)) for graph in graphs]
    return Flames(
        _time(found, language),
        tuple(_picture(title, graph, names, tones) for title, graph in zip(titles, graphs, strict=True)),
        {
            "names": names,
            "tones": tones,
            "units": unit_names(language.unmarked, "ns"),
            "graphs": [
                {"title": title, "frame": graph.frame, "depth": graph.depth, "ns": graph.ns, "count": graph.count}
                for title, graph in zip(titles, graphs, strict=True)
            ],
        },
    )


def _time(found: FlameFrames, language: Language) -> str:
    if found.steps is None:
        return language.text(_RECORDING)
    if found.typical_steps is not None and found.steps < found.typical_steps:
        return language.text(_SOME_STEPS, count=found.steps, all=found.typical_steps)
    return language.text(_STEPS, count=found.steps)


def _placed(graph: FlameRows) -> Iterator[tuple[int, int]]:
    """Row and start in ns of each frame: after those before it below the same frame."""
    free: list[int] = [0]
    for row, (depth, ns) in enumerate(zip(graph.depth, graph.ns, strict=True)):
        del free[depth + 1 :]
        start = free[depth] if depth < len(free) else free[-1]
        free[depth:] = [start + ns, start]
        yield row, start


def _picture(title: str, graph: FlameRows, names: list[str], tones: list[str]) -> FlamePicture:
    whole = sum(ns for ns, depth in zip(graph.ns, graph.depth, strict=True) if depth == 0) or 1
    bars = []
    for row, start in _placed(graph):
        share = graph.ns[row] / whole
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
    return FlamePicture(title, 16 + max((bar.y for bar in bars), default=0), tuple(bars))
