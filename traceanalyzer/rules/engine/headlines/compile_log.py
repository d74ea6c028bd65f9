"""The headline of a compile log: how long compilation took, and which phase and function took most of it."""

from __future__ import annotations

from msgspec.structs import replace

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.compilation.logged import LogFigures
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import named_code
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, first_short, is_short

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
    "detail-log-longest",
    "The longest is {function} with {time:ns}.",
    "a compilation; function is a function with its file and line",
)
_MAINLY = Text(
    "headline-log-mainly",
    "{count:count} compilations took {time:ns}, most of it {phases}.",
    "phases is a list with the longest ones, such as Inductor 15.2 s (89 %)",
    one="One compilation took {time:ns}, most of it {phases}.",
)
_ALL_PHASES = Text(
    "detail-log-phases", "Phases: {phases}.", "phases is a list such as Inductor 15.2 s (89 %), Dynamo 1.4 s (8 %)"
)
_UNTIMED = Text(
    "headline-log-untimed",
    "The log contains {count:count} compilations, but not how long they took.",
    one="The log contains one compilation, but not how long it took.",
)
_CLOCK = Text(
    "detail-log-clock",
    "Times without figures of torch are those of the log's lines.",
    "lines of a log begin with a time",
)
_FAILED = Text(
    "headline-log-failed-2",
    "{count:count} compilations failed; the first is {function}.",
    "function is a function with its file and line",
    one="The compilation of {function} failed.",
)
_ERROR = Text("detail-log-error", "{function} failed: {error}", "function has a file and a line; error is torch's text")
_NONE = Text("headline-log-none", "The log contains no compilation.")
_SIZES_IN = Text(
    "headline-log-sizes-in",
    "Sizes that an export fixed: {count:count}; the first is {expression} at {place}.",
    "expression is a condition such as Eq(s0, 3); place is a file and a line",
)
_SIZES = Text(
    "headline-log-sizes-2",
    "Sizes that an export fixed: {count:count}; the first is at {place}.",
    "place: a file",
)


def of_log(code: CompiledCode, log: LogFigures) -> StepBound:
    """The headline of a compile log: how long compilation took, and which phase and function took most of it.

    The share is that of the largest phase.
    """
    times = {name: getattr(log, name) or 0 for name in _PHASES}
    largest = max(times.values())
    share = largest / log.compiling_ns if log.compiling_ns and largest else None
    found = _compiled(code, log, times, share)
    for failure in code.failures[:1]:
        named = named_code(failure.function, failure.file, failure.line)
        others = (_ERROR(function=named, error=failure.error), found.message, *found.details)
        found = replace(found, message=_FAILED(count=len(code.failures), function=named), details=others)
    if code.size_guards and not log.compilations:
        guard = code.size_guards[0]
        said = {"count": len(code.size_guards), "place": named_code(None, guard.file, guard.line)}
        message = first_short((_SIZES_IN(**said, expression=guard.expression), _SIZES(**said)))
        found = replace(found, message=message, details=(found.message, *found.details))
    return found


def _compiled(code: CompiledCode, log: LogFigures, times: dict[str, int], share: float | None) -> StepBound:
    total = log.compiling_ns
    if not log.compilations:
        return StepBound("compilation", _NONE(), share)
    if not total:
        return StepBound("compilation", _UNTIMED(count=log.compilations), share)
    told = tuple(
        _OF_PHASE.get(name, _PHASE)(phase=_PHASES[name], part=time, share=time / total)
        for name, time in sorted(times.items(), key=lambda item: -item[1])
        if time >= _LEAST_PHASE * total
    )
    said = {"count": log.compilations, "time": total}
    found = StepBound("compilation", _SPLIT(**said, phases=told) if told else _ALL(**said), share)
    if not is_short(found.message):
        found = replace(found, message=_MAINLY(**said, phases=told[:1])).and_says(_ALL_PHASES, phases=told)
    if log.compilations > 1:
        longest = max(code.compilations, key=lambda row: row.time_ns or 0)
        named = named_code(longest.function, *longest.place)
        found = found.and_says(_LONGEST, function=named, time=longest.time_ns)
    return found.and_says(_CLOCK) if log.is_by_clock else found
