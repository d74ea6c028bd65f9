"""The critical path of a step in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.simulation.critical_path import CriticalPath, CriticalStretch

_MOST_TURNS = 5
"""What a sentence can tell one after the other (own choice)."""
_LEAST = 0.01
"""Share of the step from which on something is told."""
_MOST_HIDDEN = 0.05
"""Share of the step that may count with what is around it, for a sentence in the order of time (own choice)."""
_CHAINS = {
    "loader": "loader",
    "host": "host",
    "launch": "host",
    "wake_up": "host",
    "communication": "communication",
    "unrecorded": "unrecorded",
    "asleep": "asleep",
}
"""What a resource is in a sentence; all others are the GPU's."""
_PIECES = {
    "loader": Text("path-time-loader", "DataLoader {time:ns}", "part of a sentence: first A, then B, then C"),
    "host": Text("path-time-host", "host {time:ns}", "part of a sentence: first A, then B, then C"),
    "gpu": Text("path-time-gpu", "GPU {time:ns}", "part of a sentence: first A, then B, then C"),
    "communication": Text(
        "path-time-communication", "communication {time:ns}", "part of a sentence: first A, then B, then C"
    ),
    "unrecorded": Text(
        "path-time-unrecorded", "work that was not recorded {time:ns}", "part of a sentence: first A, then B, then C"
    ),
    "asleep": Text(
        "path-time-asleep",
        "sleep and waits {time:ns}",
        "the program waits for a clock, a lock, a process, a file or the network; part of a sentence: first A, then B",
    ),
}
_THEN = Text("path-then", "{before}, then {next}", "each is a part of a step and its time, such as: host 40 ms")
_AND = Text("path-and", "{before}, {next}", "each is a part of a step and its time, such as: host 40 ms")
_ALL = Text("path-all-of-one", "The whole step is {part}.", "part is such as: host 40 ms")
_NEARLY = Text("path-nearly-all-of-one", "Nearly the whole step is {part}.", "part is such as: host 40 ms")
_IN_ORDER = Text("path-in-order", "The step is {parts}.", "parts is such as: host 40 ms, then GPU 78 ms")
_IN_ORDER_OF_ONE = Text(
    "path-in-order-of-one",
    "The step closest to the mean is {parts}.",
    "parts is such as: host 40 ms, then GPU 78 ms",
)
_SHORT = Text(
    "path-short-turns",
    "The sentence on the step leaves out shorter turns, which take {time:ns} in all.",
    "the sentence is such as: The step is host 40 ms, then GPU 78 ms",
)
_IN_TURNS = Text(
    "path-in-turns",
    "In many short turns, the step is {parts}.",
    "parts is such as: GPU 78 ms, host 40 ms; the greatest first",
)


def of_report(report: Report) -> Iterator[Message]:
    """The sentence, if the report has a path of some length."""
    found = report.result("critical_path", CriticalPath)
    if found is not None and found.step_ns and found.parts:
        yield _sentence(found)


def _sentence(found: CriticalPath) -> Message:
    """The path in one sentence: in the order of time where it has few parts, else by size."""
    turns, hidden = _turns(found.stretches)
    if _is_ordered(turns, hidden):
        parts = [_PIECES[chain](time=ns) for chain, ns in turns]
        if len(parts) == 1 and found.steps == 1:
            return (_NEARLY if hidden else _ALL)(part=parts[0])
        return (_IN_ORDER if found.steps == 1 else _IN_ORDER_OF_ONE)(parts=_chain(parts, _THEN))
    sums: dict[str, float] = {}
    for part in found.parts:
        chain = _CHAINS.get(part.resource, "gpu")
        sums[chain] = sums.get(chain, 0.0) + part.ns_per_step
    ranked = sorted(sums, key=lambda chain: (-sums[chain], chain))
    kept = [chain for chain in ranked if sums[chain] >= _LEAST * found.step_ns] or ranked[:1]
    return _IN_TURNS(parts=_chain([_PIECES[chain](time=sums[chain]) for chain in kept], _AND))


def left_out(found: CriticalPath) -> Iterator[Message]:
    """What the sentence leaves out, if it is enough to be told."""
    turns, hidden = _turns(found.stretches)
    if _is_ordered(turns, hidden) and hidden >= _LEAST * (hidden + sum(ns for _, ns in turns)):
        yield _SHORT(time=hidden)


def _is_ordered(turns: Sequence[tuple[str, int]], hidden: int) -> bool:
    """Whether so few turns take so much of the step that they are told in their order."""
    whole = hidden + sum(ns for _, ns in turns)
    return 0 < len(turns) <= _MOST_TURNS and hidden <= _MOST_HIDDEN * whole


def _turns(stretches: Sequence[CriticalStretch]) -> tuple[list[tuple[str, int]], int]:
    """What the step waits for one after the other, with times in ns, and the time of turns too short to tell.

    The shortest turn is left out until there are few, and as long as it is too short to tell.
    """
    turns = _joined([(_CHAINS.get(each.resource, "gpu"), each.duration_ns) for each in stretches])
    whole, hidden = sum(ns for _, ns in turns), 0
    while len(turns) > 1:
        shortest = min(range(len(turns)), key=lambda place: turns[place][1])
        ns = turns[shortest][1]
        if len(turns) <= _MOST_TURNS and ns >= _LEAST * whole:
            break
        hidden += ns
        turns = _joined([*turns[:shortest], *turns[shortest + 1 :]])
    return turns, hidden


def _joined(turns: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Turns of which no two that follow each other are the same."""
    groups = groupby(turns, key=lambda turn: turn[0])
    return [(chain, sum(ns for _, ns in members)) for chain, members in groups]


def _chain(parts: Sequence[Message], link: Text) -> Message:
    """Parts of a sentence one after the other."""
    said = parts[0]
    for part in parts[1:]:
        said = link(before=said, next=part)
    return said
