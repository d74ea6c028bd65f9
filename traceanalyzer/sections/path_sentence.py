"""The critical path of a step in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.simulation.critical_path import CriticalPath, CriticalStretch

_MOST_TURNS = 5
"""Most parts that a sentence lists in the order of time (own choice)."""
_LEAST = 0.01
"""Least share of the step of a part that is mentioned."""
_MOST_HIDDEN = 0.05
"""Most share of the step that may be merged into neighbours in a sentence in the order of time (own choice)."""
_CHAINS = {
    "loader": "loader",
    "host": "host",
    "launch": "host",
    "wake_up": "host",
    "communication": "communication",
    "unrecorded": "unrecorded",
    "asleep": "asleep",
}
"""The resources with separate names in a sentence; all others count as the GPU."""
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
    """The sentence, if the report has a path of some length, and work of all devices can be on it."""
    found, others = report.result("critical_path", CriticalPath), report.result("accelerators", Accelerators)
    if found is not None and found.step_ns and found.parts and not (others and others.devices):
        yield _sentence(found)


def _sentence(found: CriticalPath) -> Message:
    """The path in one sentence: in the order of time if it has few parts, otherwise by size."""
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
    """A note on the part that the sentence leaves out, if it is large enough."""
    turns, hidden = _turns(found.stretches)
    if _is_ordered(turns, hidden) and hidden >= _LEAST * (hidden + sum(ns for _, ns in turns)):
        yield _SHORT(time=hidden)


def _is_ordered(turns: Sequence[tuple[str, int]], hidden: int) -> bool:
    """Whether the turns are few and cover enough of the step to be listed in order."""
    whole = hidden + sum(ns for _, ns in turns)
    return 0 < len(turns) <= _MOST_TURNS and hidden <= _MOST_HIDDEN * whole


def _turns(stretches: Sequence[CriticalStretch]) -> tuple[list[tuple[str, int]], int]:
    """The resources that the step waits for in order, with times in ns, and the total time of turns that were left out.

    The shortest turn is left out while there are too many, or while it is too short to mention.
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
    """Merge consecutive turns of one resource."""
    groups = groupby(turns, key=lambda turn: turn[0])
    return [(chain, sum(ns for _, ns in members)) for chain, members in groups]


def _chain(parts: Sequence[Message], link: Text) -> Message:
    """Join the parts of a sentence."""
    said = parts[0]
    for part in parts[1:]:
        said = link(before=said, next=part)
    return said
