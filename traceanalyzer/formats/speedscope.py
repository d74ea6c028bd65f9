"""Renders flame graphs as a file of speedscope, https://www.speedscope.app/file-format-schema.json."""

from __future__ import annotations

from typing import Any

import msgspec

from traceanalyzer._version import __version__
from traceanalyzer.analyzers.host.flame_graphs import DEVICE, HOST, IDLE, FlameGraph, FlameGraphs
from traceanalyzer.formats import flame_frames
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.formats.names import clean
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.owners import Owner

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_TITLES = {
    HOST: Text("flame-host", "Host time", "title of a flame graph"),
    DEVICE: Text("flame-device", "GPU time by what launched it", "title of a flame graph"),
    IDLE: Text("flame-idle", "GPU idle: nothing was launched", "title of a flame graph of time of the host"),
}
_OF_THREAD = Text("flame-thread", "{title}, thread {thread}", "title of a flame graph of one more thread")
_STEPS = Text(
    "flame-steps",
    "{trace}: {steps:count} typical steps",
    "title of a file of flame graphs",
    one="{trace}: {steps:count} typical step",
)
_RECORDING = Text("flame-recording", "{trace}: whole recording", "title of a file of flame graphs")


def render(found: FlameGraphs, trace: str, *, language: Language = ENGLISH) -> str:
    """Render all flame graphs in one file: a profile for each, with a sample for each stack and its time in ns.

    Args:
        found: The flame graphs.
        trace: Name of the trace.
        language: Language of the titles.
    """
    frames: dict[tuple[str, str | None, int | None], int] = {}

    def number(owner: Owner) -> int:
        file = None if owner.file is None else clean(owner.file)
        return frames.setdefault((flame_frames.name(owner), file, owner.line), len(frames))

    profiles = [_profile(graph, [[*map(number, stack)] for stack in graph.stacks], language) for graph in found.graphs]
    content = {
        "exporter": f"traceanalyzer@{__version__}",  # first, so that this program recognizes its files
        "$schema": _SCHEMA,
        "name": language.say(_title(found, clean(trace))),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*frame) for frame in frames]},
        "profiles": profiles,
    }
    return msgspec.json.encode(content).decode() + "\n"


def _title(found: FlameGraphs, trace: str) -> Message:
    return _RECORDING(trace=trace) if found.steps is None else _STEPS(trace=trace, steps=found.steps)


def _profile(graph: FlameGraph, samples: list[list[int]], language: Language) -> dict[str, Any]:
    title = language.text(_TITLES[graph.quantity])
    if graph.thread is not None:
        title = language.text(_OF_THREAD, title=title, thread=clean(graph.thread))
    return {
        "type": "sampled",
        "name": title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": graph.total_ns,
        "samples": samples,
        "weights": list(graph.weights),
    }


def _frame(name: str, file: str | None, line: int | None) -> dict[str, Any]:
    known = {"name": name, "file": file, "line": line}
    return {field: value for field, value in known.items() if value is not None}
