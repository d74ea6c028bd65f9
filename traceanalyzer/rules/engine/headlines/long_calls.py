"""Adds to a headline the single call, or the loop, that takes much of a step that the host bounds."""

from __future__ import annotations

from traceanalyzer.analyzers.host import HostOwners
from traceanalyzer.analyzers.operators.loops import Repeats
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import as_code
from traceanalyzer.rules.engine import host_owners, program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, unit
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.repeated_calls import LEAST

_LONG = 0.3
"""Share of a step from which on a single call is named."""
_WORTH_LOOP = 0.2
"""Share of a step from which on a loop is named."""
_SHORT_NS = 100_000
"""Mean time of an operator in ns above which a loop computes rather than calls (own choice: it may wait, too)."""
_NAMES = 3
_LOOP = Text(
    "detail-loop",
    "For {part:part} of {unit} a loop runs the same {operators:count} operators {turns:number} times, among them "
    "{names}.",
    note="unit is in the genitive: each step; names are the first operators of a turn, such as: aten::rand",
)
_LOOP_AT = Text(
    "detail-loop-at",
    "For {part:part} of {unit} a loop in {line} runs the same {operators:count} operators {turns:number} times.",
    note="unit is in the genitive: each step; line is a file, a line and a function",
)
_SEARCH = Text(
    "headline-search",
    "Choosing convolution algorithms for new sizes: {part:part} of {unit}.",
    note="unit is in the genitive: each step; part reads: 35 of the 152 ms; cuDNN tries them out",
)
_SEARCH_WHY = Text(
    "detail-search",
    "cudnn.benchmark runs each algorithm that fits, and sizes are new in most steps, so the search never ends.",
)
_CALL = Text(
    "detail-long-call",
    "A single call of `{call}` in {owner} takes {time:ns}.",
    note="call is an operator or runtime call; owner a function, mark or module",
)
_CALL_WAITS = Text(
    "detail-long-call-waits",
    "A single call of `{call}` in {owner} takes {time:ns}: {wait} waits until {event} has ended.",
    note="call is an operator, wait a runtime call, event a kernel or copy; owner a function, mark or module",
)
_CALL_EARLIER = Text(
    "detail-long-call-earlier",
    "A single call of `{call}` in {owner} takes {time:ns}: {wait} waits for work from before the trace.",
    note="call is an operator, wait a runtime call; owner a function, mark or module",
)


def of_searches(facts: Facts) -> StepBound | None:
    """The headline of steps most of which try out algorithms of convolutions; None for all others."""
    found = program.searches(facts)
    time = 0.0 if found is None else facts.per_step(found.time_ns)
    if 2 * time < facts.step_ns or not time:
        return None
    recording = facts.find("recording", Recording)
    message = _SEARCH(part=(min(time, facts.step_ns), facts.step_ns), unit=unit(recording))
    return StepBound("gpu-compute", message, min(1.0, time / facts.step_ns)).and_says(_SEARCH_WHY)


def with_loop(facts: Facts, found: StepBound) -> StepBound:
    """Qualify a step that the host bounds by the loop of small operators that takes much of it."""
    repeats = facts.find("repeats", Repeats)
    loop = repeats.longest if repeats is not None else None
    if loop is None or found.bound != "host" or not facts.step_ns:
        return found
    turns, time = facts.per_step(loop.turns), facts.per_step(loop.host_ns)
    is_called = loop.host_ns <= _SHORT_NS * loop.turns * len(loop.operators)
    if turns < LEAST or not _WORTH_LOOP * facts.step_ns <= time <= facts.step_ns or not is_called:
        return found
    said = {"part": (time, facts.step_ns), "unit": unit(facts.find("recording", Recording))}
    said |= {"operators": len(loop.operators), "turns": round(turns)}
    if loop.python_line is not None:
        return found.qualified(_LOOP_AT, **said, line=as_code(loop.python_line))
    names = [as_code(name) for name in dict.fromkeys(loop.operators)]
    return found.qualified(_LOOP, **said, names=names[:_NAMES])


def with_long_call(owners: HostOwners, found: StepBound, step_ns: float) -> StepBound:
    """Add the longest call that takes much of a step while the device does nothing for at least half of that."""
    calls = [
        (call, row)
        for row in owners.rows
        if (call := row.longest_call) is not None and call.duration_ns >= _LONG * step_ns
        if 2 * (row.idle_self_ns or 0) >= call.duration_ns and call.name != row.name
    ]
    if not calls:
        return found
    call, row = max(calls, key=lambda entry: entry[0].duration_ns)
    said = {"call": call.name, "owner": host_owners.name(row), "time": call.duration_ns}
    if call.wait is None or 2 * call.waiting_ns < call.duration_ns:
        return found.and_says(_CALL, **said)
    if call.waits_for == "unrecorded-work":
        return found.and_says(_CALL_EARLIER, **said, wait=call.wait)
    if call.event is None:
        return found.and_says(_CALL, **said)
    return found.and_says(_CALL_WAITS, **said, wait=call.wait, event=call.event)
