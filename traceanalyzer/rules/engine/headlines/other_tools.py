"""The headline of a table of another tool: which of its parts, functions or kernels take most."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.tables.parts import PrintedPart
from traceanalyzer.analyzers.tables.runs import Hot, PrintedRun
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.parts import KINDS
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.typical import MOST, WORTH, WORTH_BESIDE, StepBound

_SHOWN = 4
_INPUT = Text(
    "headline-tool-input",
    "Bound by input: {part:part} are waiting for data, according to {tool}.",
    note="tool is a program such as cProfile; part reads: 6 of the 10 s",
)
_COMMUNICATION = Text(
    "headline-tool-communication",
    "Bound by communication: {part:part} are collectives, according to {tool}.",
    note="tool is a program; part reads: 6 of the 10 s",
)
_PARTS = Text(
    "headline-tool-parts",
    "Of {whole:rounded_ns}, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as update (`step`) 300 ms, backward (`bwd`) 200 ms",
)
_PARTS_PER_STEP = Text(
    "headline-tool-parts-per-step",
    "Of {whole:rounded_ns} per step, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as update (`step`) 300 ms, backward (`bwd`) 200 ms",
)
_UNKNOWN_WHOLE = Text(
    "headline-tool-unknown-whole",
    "{tool} does not say how long the program takes in all. What takes most: {parts}.",
    note="tool is a program; parts is a list such as update (`step`) 300 ms",
)
_KERNELS = Text(
    "headline-tool-kernels",
    "Of {whole:rounded_ns} on the GPU, according to {tool}: {parts}. How long the program takes in all is unknown.",
    note="tool is a program; parts is a list such as ampere_sgemm 300 ms (75 %)",
)
_NAMED = Text("headline-tool-named", "{kind} ({name}) {time:ns}", note="part of a list: update (`step`) 300 ms")
_PLAIN = Text("headline-tool-plain", "{name} {time:ns}", note="part of a list: `tokenize` 300 ms")
_INNER = Text("headline-tool-inner", "{kind} ({name}) {time:ns} of it", note="part of a list, after what contains it")


def verdict(facts: Facts, run: PrintedRun) -> StepBound:
    """What bounds the program, if a part of it waits for data or communicates; else what takes most."""
    step = facts.step_ns
    loader = facts.resources.loader_ns or 0.0
    said = {"tool": run.tool}
    if run.cpu_ns and loader >= WORTH * step:
        return StepBound("input", _INPUT(part=(loader, step), **said), loader / step)
    communicates = sum(part.time_ns for part in run.parts if part.part == "communication") / run.steps
    if run.cpu_ns and communicates >= MOST * step:
        return StepBound("communication", _COMMUNICATION(part=(communicates, step), **said), communicates / step)
    if run.cpu_ns is not None or not run.kernels:
        return StepBound("none", of_parts(run), None)
    told = [_PLAIN(name=f"`{row.name}`", time=(row.device_self_ns or 0) / run.steps) for row in _largest(run)]
    return StepBound("none", _KERNELS(whole=step, parts=told, **said), None)


def _largest(run: PrintedRun) -> tuple[Hot, ...]:
    least = WORTH_BESIDE * (run.device_ns or 0)
    return tuple(row for row in run.kernels if (row.device_self_ns or 0) >= least)[:_SHOWN] or run.kernels[:1]


def of_parts(run: PrintedRun) -> Message:
    """Which parts take most."""
    shown = [part for part in run.parts if part.kind != "call"] or list(run.parts)
    own = [part for part in shown if part.self_ns is not None or part.part is not None] or shown
    least = WORTH_BESIDE * (run.cpu_ns or 0)
    outer = [part for part in own if part.within is None and _time(part) >= least]
    outer.sort(key=lambda part: -_time(part))
    told = [one for part in outer[:_SHOWN] for one in _told(part, run)]
    if run.cpu_ns is None:
        return _UNKNOWN_WHOLE(tool=run.tool, parts=told)
    return (_PARTS_PER_STEP if run.steps > 1 else _PARTS)(whole=run.cpu_ns / run.steps, tool=run.tool, parts=told)


def _time(part: PrintedPart) -> int:
    return part.time_ns if part.self_ns is None else part.self_ns


def _told(part: PrintedPart, run: PrintedRun) -> Iterator[Message]:
    """A part, and those in it that do something else."""
    said = {"name": f"`{part.name}`", "time": _time(part) / run.steps}
    yield _NAMED(kind=KINDS[part.part](), **said) if part.part in KINDS else _PLAIN(**said)
    for inner in run.parts:
        if inner.within == part.name and inner.part is not None and inner.part != part.part:
            yield _INNER(kind=KINDS[inner.part](), name=f"`{inner.name}`", time=inner.time_ns / run.steps)
