"""The headline of a compile log: how long compilation took, and which phase and function took most of it."""

from __future__ import annotations

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.compilation.logged import LogFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import named_code
from traceanalyzer.rules.engine.headlines.typical import StepBound

_LEAST_PHASE = 0.01
"""Share of the time of compilations from which on a phase is named (own choice: less is no news)."""

_PHASES = {
    "dynamo_ns": "Dynamo",
    "aot_ns": "AOTAutograd",
    "inductor_ns": "Inductor",
    "other_backend_ns": "backend",
    "backward_ns": "backward",
}
_ALL = Text(
    "headline-log",
    "{count:count} compilations took {time:ns}.",
    "time is the sum",
    one="One compilation took {time:ns}.",
)
_SPLIT = Text(
    "headline-log-phases",
    "{count:count} compilations took {time:ns}: {phases}.",
    "phases is a list such as Inductor 15.2 s (89 %), Dynamo 1.4 s (8 %)",
    one="One compilation took {time:ns}: {phases}.",
)
_PHASE = Text(
    "headline-log-phase", "{phase} {part:ns} ({share:share})", "part of a list; phase is a part of torch.compile"
)
_OF_PHASE = {
    "backward_ns": Text("headline-log-backward", "backward passes {part:ns} ({share:share})", "part of a list"),
    "other_backend_ns": Text(
        "headline-log-backend", "another backend {part:ns} ({share:share})", "part of a list; not Inductor"
    ),
}
_LONGEST = Text(
    "headline-log-longest",
    "{headline} The longest is {function} with {time:ns}.",
    "headline is a sentence; function is a function with its file and line",
)
_UNTIMED = Text(
    "headline-log-untimed",
    "The log contains {count:count} compilations, but not how long they took.",
    one="The log contains one compilation, but not how long it took.",
)
_CLOCK = Text(
    "headline-log-clock",
    "{headline} Times without figures of torch are those of the log's lines.",
    "headline is a sentence; lines of a log begin with a time",
)
_FAILED = Text(
    "headline-log-failed",
    "{headline} {count:count} compilations failed; the first is {function}: {error}",
    "headline is a sentence; function is a function with its file and line; error is torch's text",
    one="{headline} The compilation of {function} failed: {error}",
)
_NONE = Text("headline-log-none", "The log contains no compilation.")
_SIZES = Text(
    "headline-log-sizes",
    "{headline} Sizes that an export fixed: {count:count}; the first is {expression} at {place}.",
    "headline is a sentence; expression is a condition such as Eq(s0, 3); place is a file and a line",
)


def of_log(code: CompiledCode, log: LogFigures) -> StepBound:
    """The headline of a compile log: how long compilation took, and which phase and function took most of it.

    The share is that of the largest phase.
    """
    times = {name: getattr(log, name) or 0 for name in _PHASES}
    largest = max(times.values())
    message = _compiled(code, log, times)
    for failure in code.failures[:1]:
        named = named_code(failure.function, failure.file, failure.line)
        message = _FAILED(headline=message, count=len(code.failures), function=named, error=failure.error)
    if code.size_guards and not log.compilations:
        guard = code.size_guards[0]
        place = named_code(None, guard.file, guard.line)
        message = _SIZES(headline=message, count=len(code.size_guards), expression=guard.expression, place=place)
    share = largest / log.compiling_ns if log.compiling_ns and largest else None
    return StepBound("compilation", message, share)


def _compiled(code: CompiledCode, log: LogFigures, times: dict[str, int]) -> Message:
    total = log.compiling_ns
    if not log.compilations:
        return _NONE()
    if not total:
        return _UNTIMED(count=log.compilations)
    told = tuple(
        _OF_PHASE.get(name, _PHASE)(phase=_PHASES[name], part=time, share=time / total)
        for name, time in sorted(times.items(), key=lambda item: -item[1])
        if time >= _LEAST_PHASE * total
    )
    said = {"count": log.compilations, "time": total}
    message = _SPLIT(**said, phases=told) if told else _ALL(**said)
    if log.compilations > 1:
        longest = max(code.compilations, key=lambda row: row.time_ns or 0)
        named = named_code(longest.function, *longest.place)
        message = _LONGEST(headline=message, function=named, time=longest.time_ns)
    return _CLOCK(headline=message) if log.is_by_clock else message
