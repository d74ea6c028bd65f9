"""The waiting of a stage of a pipeline for another one, as its messages show it, whatever its passes show."""

from __future__ import annotations

from math import fsum

import msgspec

from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.communication import CollectiveRow, Communication, HostCollectives
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import CollectivesShorter, HostTime
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, unit
from traceanalyzer.structure.events import COMMUNICATION
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean, rows_of

_LATE_CALL = 20
"""So many times as long as a usual one of equal size, a message waits (own choice, as for late ranks)."""
_SIDES = 2
"""From so many neighbours a stage receives: most receives of a step in which the batch comes in one piece."""
_BOUNDS = 0.25
"""Least share of a step in which nothing but such waiting happens, that bounds one stage (own choice, as of ranks)."""
MESSAGES = frozenset({"send", "recv", "send_recv"})

_WAITS = Text(
    "headline-waits-for-stage",
    "Waiting for another stage of the pipeline: {part:part} of {unit}.",
    note="part reads: 35 of the 152 ms; unit is in the genitive: each step",
)


class StageWait(msgspec.Struct, frozen=True):
    """Messages that wait for another stage."""

    ns: float
    """Time per step in ns beyond that of usual messages, in which nothing is computed."""
    usual_ns: float
    """Duration in ns of the median message of equal size; on a CPU the mean of what the stage sends."""
    longest_ns: float
    """Duration in ns of the longest; on a CPU the mean of what the stage receives."""
    rows: tuple[CollectiveRow, ...] = ()
    """Messages on a device; empty on a CPU."""


def found(facts: Facts) -> StageWait | None:
    """What a training waits for messages of single ranks, if some take far longer than equal ones; else None.

    On a CPU no sizes are known: there it is waiting if a step receives at most once from each side, and that takes far
    longer than what the stage sends.
    """
    own = facts.step_resources
    if own is None or not program.trains(facts):
        return None
    exposed = own.exposed_communication_ns or 0.0
    measured = facts.find("communication", Communication)
    if measured is None:
        return _on_host(facts, exposed)
    rows = [row for row in rows_of(measured) if row.operation in MESSAGES and row.median_ns]
    late = [row for row in rows if row.max_ns >= _LATE_CALL * (row.median_ns or 0.0)]
    if not late:
        return None
    beyond = fsum(row.total_ns - row.calls * (row.median_ns or 0.0) for row in late)
    longest = max(late, key=lambda row: row.max_ns)
    waited = min(facts.in_collectives(beyond), exposed)
    return StageWait(waited, longest.median_ns or 0.0, longest.max_ns, tuple(rows))


def change(waits: StageWait, basis: Message) -> HostTime | CollectivesShorter:
    """The step without the waiting, or with all of it: what a schedule hides of it depends on all stages."""
    saved, claims = (0.0, waits.ns), {COMMUNICATION: waits.ns}
    if not waits.rows:
        return HostTime(saved, basis, claims=claims, at=communication.host_collectives_at(kind="recv"))
    at = communication.collectives_at(rows=waits.rows)
    return CollectivesShorter(saved, basis, saved, claims, at=at, may_wait=False)


def _on_host(facts: Facts, exposed_ns: float) -> StageWait | None:
    """The same of messages of a library on the CPU, of all communication that takes so long per step in ns."""
    measured, recording = facts.find("host_collectives", HostCollectives), facts.find("recording", Recording)
    rows = {row.operation: row for row in measured.rows} if measured else {}
    sent, received = rows.get("send"), rows.get("recv")
    if recording is None or sent is None or received is None or received.calls > _SIDES * len(recording.steps):
        return None
    usual, longest = mean(sent.total_ns, sent.calls), mean(received.exposed_ns, received.calls)
    if not longest >= _LATE_CALL * usual > 0:
        return None
    every = fsum(row.exposed_ns for row in rows.values())  # of all steps, not only of typical ones
    return StageWait(exposed_ns * received.calls * (longest - usual) / every, usual, longest)


def with_stage(facts: Facts, said: StepBound) -> StepBound | None:
    """The headline of a stage that waits for another one for a good part of a step; None of other programs.

    Args:
        facts: Of the trace of one rank.
        said: The headline without that.
    """
    recording, waits = facts.find("recording", Recording), found(facts)
    if recording is None or waits is None:
        return None
    is_of_messages = (said.bound == "host" and not waits.rows) or said.bound.startswith(("gpu", "communication"))
    if not is_of_messages or waits.ns < max(_BOUNDS * facts.step_ns, 1.0):
        return None
    message = _WAITS(part=(waits.ns, facts.step_ns), unit=unit(recording))
    return StepBound("communication", message, waits.ns / facts.step_ns, details=said.details)
