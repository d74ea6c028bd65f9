"""The headline of texts that have no step: calls and ranges of tools that print no whole, and figures over time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from traceanalyzer.analyzers.tables.parts import PrintedFigures, PrintedPart
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Headline
from traceanalyzer.report.names import as_code
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, first_short, of_list

_SHOWN = 3
_LEAST = 0.1
"""Share of all calls from which on one of them is named (own choice, as of parts of a program)."""
_BESIDE = 5
"""How much longer than the GPU's work calls must take to be what the headline is about (own choice)."""
_OF_CUDA = re.compile(r"(?:cuda|cu|hip|aclrt)[A-Z]")
_CALLS = Text(
    "headline-tool-calls",
    "Of {whole:ns} in calls of CUDA, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as cudaMalloc 300 ms (3 calls)",
)
_WORKS = Text("detail-tool-gpu-works", "The GPU works for {device:ns}.", note="device is a time")
_SYSTEM = Text(
    "headline-tool-system",
    "These are calls of the operating system, mostly waits, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as poll 300 ms (3 calls)",
)
_PASTE_GPU = Text(
    "detail-tool-paste-gpu",
    "What the GPU does is in cuda_gpu_kern_sum and cuda_api_sum: paste these, too.",
    note="cuda_gpu_kern_sum and cuda_api_sum are code",
)
_LARGEST = Text(
    "headline-tool-largest",
    "What takes most, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as update (`step`) 300 ms",
)
UNKNOWN_WHOLE = Text("detail-unknown-whole", "How long the program takes in all is unknown.")
_CALLED = Text(
    "headline-tool-called",
    "{name} {time:ns} ({calls:count} calls)",
    one="{name} {time:ns} (1 call)",
    note="part of a list: `cudaMalloc` 300 ms (3 calls)",
)
PLAIN = Text("headline-tool-plain", "{name} {time:ns}", note="part of a list: `tokenize` 300 ms")
_FIGURES = Text(
    "headline-figures",
    "{figures}, according to {tool}.",
    note="figures is a list such as sm 30 %; tool is a program",
)
_RECORD_TRACE = Text(
    "detail-figures", "What takes the time is not in it: record a trace (traceanalyzer capture).", note="it: the text"
)
_FIGURE = Text("headline-figure", "{name} {mean:number} {unit}", note="part of a list: sm 30 %")
_FIGURE_MEAN = Text(
    "headline-figure-mean", "{name} {mean:number} {unit} in the mean", note="part of a list: sm 30 % in the mean"
)
_TELLING = (
    re.compile(r"util|^sm\b|mfu|elapsed|per_second|SamplesPerSec|\b[tw]ps\b|throughput", re.IGNORECASE),
    re.compile(r"mem", re.IGNORECASE),
)
"""Names of figures that tell how well a device or a program does, before all others."""


def headlines(results: Mapping[str, Any], told: Collection[str | None]) -> Iterator[Headline]:
    """A headline for each run of another tool of which none is told, else one of the figures.

    Args:
        results: Results of the analyses of a document.
        told: Ids of the runs that have a headline.
    """
    runs: Sequence[PrintedRun] = results["runs"]
    found = [(run.id, said) for run in runs if run.id not in told and (said := of_run(run)) is not None]
    if not found and not told and (said := _of_figures(results["printed_figures"])) is not None:
        yield _headline(None, said)
    for id_, said in found:
        yield _headline(id_, said)


def _headline(run: str | None, found: StepBound) -> Headline:
    return Headline(run, found.bound, found.message, None, None, None, None, found.qualifier, found.details)


def of_run(run: PrintedRun) -> StepBound | None:
    """What takes most of the calls or the ranges of a tool's table; None if it has none."""
    if run.tool is None or not run.parts:
        return None
    calls = [part for part in run.parts if part.kind == "call"]
    if not calls:
        outer = [part for part in run.parts if part.within is None]
        return of_largest(run, [PLAIN(name=as_code(part.name), time=part.time_ns) for part in outer[:_SHOWN]])
    if not any(_OF_CUDA.match(part.name) for part in calls):
        return of_list(_SYSTEM, _told(calls), tool=run.tool).qualified(_PASTE_GPU)
    found = of_list(_CALLS, _told(calls), whole=_whole(calls), tool=run.tool)
    return found.and_says(_WORKS, device=run.device_ns) if run.device_ns else found.and_says(UNKNOWN_WHOLE)


def of_largest(run: PrintedRun, parts: Sequence[Message]) -> StepBound:
    """What takes most of a program whose whole time a tool does not print."""
    return of_list(_LARGEST, parts, tool=run.tool).and_says(UNKNOWN_WHOLE)


def outweigh(run: PrintedRun) -> bool:
    """Whether the calls of a run take far longer than what the GPU does, without waiting for it."""
    calls = [part for part in run.parts if part.kind == "call"]
    waits = run.sync_ns or 0
    return bool(calls and run.device_ns) and _whole(calls) - waits > _BESIDE * (run.device_ns or 0)


def _whole(calls: Sequence[PrintedPart]) -> int:
    """The time of all calls: their sum, or what the share of the longest says, if that is more."""
    longest = max(calls, key=lambda part: part.time_ns)
    return max(sum(part.time_ns for part in calls), round(longest.time_ns / longest.share) if longest.share else 0)


def _told(calls: Sequence[PrintedPart]) -> list[Message]:
    ordered = sorted(calls, key=lambda part: -part.time_ns)
    least = _LEAST * _whole(calls)
    shown = [part for part in ordered if part.time_ns >= least][:_SHOWN] or ordered[:1]
    return [
        PLAIN(name=as_code(part.name), time=part.time_ns)
        if part.calls is None
        else _CALLED(name=as_code(part.name), time=part.time_ns, calls=part.calls)
        for part in shown
    ]


def _of_figures(figures: Sequence[PrintedFigures]) -> StepBound | None:
    """The figures that tell most, as many as a sentence has room for, of the tool that comes first."""
    if not figures:
        return None
    own = [figure for figure in figures if figure.tool == figures[0].tool]
    ordered = sorted(own, key=_rank)
    said = [
        (_FIGURE if one.values == 1 else _FIGURE_MEAN)(name=one.name, mean=one.mean, unit=one.unit) for one in ordered
    ]
    shown = [_FIGURES(figures=said[:count], tool=figures[0].tool) for count in range(_SHOWN, 0, -1)]
    return StepBound("none", first_short(shown), None).qualified(_RECORD_TRACE)


def _rank(figure: PrintedFigures) -> int:
    known = (place for place, pattern in enumerate(_TELLING) if pattern.search(figure.name))
    return next(known, len(_TELLING))
