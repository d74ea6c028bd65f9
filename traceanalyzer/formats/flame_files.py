"""Flame graphs as files: of speedscope, and as collapsed stacks for Brendan Gregg's FlameGraph.

The format of speedscope is https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

from typing import Any

import msgspec

from traceanalyzer._version import __version__
from traceanalyzer.analyzers.host.flame_graphs import DEVICE, HOST, IDLE, FlameGraph, FlameGraphs
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import clean
from traceanalyzer.structure.owners import Owner

_BACKWARD = "backward"


def frame_name(owner: Owner) -> str:
    """The name of a frame, followed by the purpose of its work in brackets: `poll [sleep]`."""
    text = clean(owner.name) or owner.kind
    if owner.kind == _BACKWARD:
        text = f"{text} (backward)"
    return f"{text} [{owner.role}]" if owner.role else text


def frame_with_place(owner: Owner) -> str:
    """The name and, if known, the file and line of a frame: `preprocess (data.py:12)`."""
    if owner.file is None:
        return frame_name(owner)
    place = clean(owner.file) if owner.line is None else f"{clean(owner.file)}:{owner.line}"
    return f"{frame_name(owner)} ({place})"


_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
TITLES = {
    HOST: Text("flame-cpu", "CPU time", "title of a flame graph"),
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
_RECORDING = Text("flame-recording", "{trace}: whole trace", "title of a file of flame graphs")


def speedscope(graphs: FlameGraphs, trace: str, *, language: Language = ENGLISH) -> str:
    """Render all flame graphs in one file: a profile for each, with a sample for each stack and its time in ns.

    Args:
        graphs: The flame graphs.
        trace: Name of the trace.
        language: Language of the titles.
    """
    frames: dict[tuple[str, str | None, int | None], int] = {}

    def number(owner: Owner) -> int:
        file = None if owner.file is None else clean(owner.file)
        return frames.setdefault((frame_name(owner), file, owner.line), len(frames))

    profiles = [_profile(graph, [[*map(number, stack)] for stack in graph.stacks], language) for graph in graphs.graphs]
    content = {
        "exporter": f"traceanalyzer@{__version__}",  # first, so that this program recognizes its files
        "$schema": _SCHEMA,
        "name": language.say(_title(graphs, clean(trace))),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*frame) for frame in frames]},
        "profiles": profiles,
    }
    return msgspec.json.encode(content).decode() + "\n"


def _title(graphs: FlameGraphs, trace: str) -> Message:
    return _RECORDING(trace=trace) if graphs.steps is None else _STEPS(trace=trace, steps=graphs.steps)


def _profile(graph: FlameGraph, samples: list[list[int]], language: Language) -> dict[str, Any]:
    title = language.text(TITLES[graph.quantity])
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


def collapsed(graph: FlameGraph) -> str:
    """Render one stack per line: its frames, outermost first, separated by semicolons, a blank, and nanoseconds."""
    stacks: dict[str, int] = {}
    for frames, weight in zip(graph.stacks, graph.weights, strict=True):
        stack = ";".join(map(_collapsed_frame, frames))
        stacks[stack] = stacks.get(stack, 0) + weight
    return "".join(f"{stack} {weight}\n" for stack, weight in stacks.items())


def _collapsed_frame(owner: Owner) -> str:
    return frame_with_place(owner).replace(";", ",")
