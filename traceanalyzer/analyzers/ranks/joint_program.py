"""Which work does each rank do between collectives, and how much longer does it take than its peers?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analyzers.ranks import rank_work
from traceanalyzer.analyzers.ranks.joint_replay import JointProgram, Shorter
from traceanalyzer.analyzers.ranks.meetings import Meetings
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.analyzers.ranks.rank_work import RankEvents
from traceanalyzer.structure.sums import count_by, group
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Array, entries

KINDS = ("host", "loader", "compute", "memory", "communication")
_HOST, _LOADER, _COMPUTE, _MEMORY, _OTHER = range(5)
"""Columns of work; the last is of collectives that no other rank has, which stay as recorded."""


def build(own: Sequence[RankFacts], found: Meetings) -> tuple[JointProgram, I64]:
    """The operations of the ranks, and the position to which each event leads; the end of a rank is also a position."""
    parts, offset = [], 0
    for member, facts in enumerate(own):
        parts.append(_events_of(facts, member, found, offset))
        offset += len(facts.collectives.kind)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    of, work, meeting, is_start, transfer, position = columns
    sizes = count_by(meeting[is_start], found.count)
    return JointProgram(of, work, meeting, is_start, transfer, sizes, len(own)), position


def _events_of(facts: RankFacts, member: int, found: Meetings, offset: int) -> tuple[Array, ...]:
    """Columns of `JointProgram` of one rank, and positions."""
    own, steps = facts.collectives, facts.steps
    step_start = np.array(steps.start_ns, np.int64)
    step = np.array([UNKNOWN if step is None else step for step in own.step], np.int64)
    start, dur = np.array(own.start_ns, np.int64), np.array(own.duration_ns, np.int64)
    events = rank_work.events(step, start, dur, step_start, step_start + np.array(steps.duration_ns, np.int64))
    row = np.where(events.is_end_of_step, UNKNOWN, events.row + offset)
    meeting = np.where(row == UNKNOWN, UNKNOWN, entries(found.meeting, row, UNKNOWN))
    work = _work(facts, events, meeting)
    is_last = np.arange(len(row)) == len(row) - 1
    kept = np.flatnonzero((meeting != UNKNOWN) | is_last)
    passed = np.cumsum(work, axis=0)[kept]
    transfer = np.where(events.is_start | (meeting == UNKNOWN), 0, entries(found.transfer_ns, row, 0))[kept]
    is_start = events.is_start[kept]
    target = np.where(is_start, entries(found.position, row[kept], UNKNOWN), UNKNOWN)
    leads = np.searchsorted(np.flatnonzero(is_start | is_last[kept]), np.arange(len(kept)))
    position = target[np.flatnonzero(is_start | is_last[kept])][leads]
    pieces = np.diff(passed, axis=0, prepend=0.0)
    return np.full(len(kept), member), pieces, meeting[kept], is_start, transfer.astype(np.float64), position


def _work(facts: RankFacts, events: RankEvents, meeting: I64) -> F64:
    """Matrix of events by kinds: own work before each event."""
    own, steps = facts.collectives, facts.steps
    length = (events.time_ns - events.since_ns).astype(np.float64)
    last, starts = events.is_end_of_step, events.is_start
    work = np.zeros((len(length), len(KINDS)))
    for kind, part in ((_COMPUTE, "compute"), (_MEMORY, "memory"), (_LOADER, "loader")):
        work[starts, kind] = np.array(getattr(own, f"{part}_before_ns"), np.int64)[events.row[starts]]
        work[last, kind] = np.array(getattr(steps, f"{part}_after_ns"), np.int64)[events.row[last]]
    rest = starts | last
    work[rest, _HOST] = length[rest] - work[rest].sum(axis=1)
    ends = ~rest & (meeting != UNKNOWN)
    work[ends, _COMPUTE] = np.array(own.compute_during_ns, np.int64)[events.row[ends]]
    alone = ~rest & (meeting == UNKNOWN)
    work[alone, _OTHER] = length[alone]
    return work


def shorter(program: JointProgram, position: I64, *, exactly: bool = False) -> Shorter:
    """The time saved if all operations take at most the median of their peers.

    Kernels that run during a collective count with those after it, up to the next start: how they are divided depends
    on how long the rank waits.

    Args:
        program: The operations of the ranks.
        position: The position to which each event leads.
        exactly: Whether operations that are faster than the median get longer, so that less than nothing is saved.
    """
    first, segment = group(program.member, _segments(program))
    last = np.empty(len(first), np.int64)
    last[segment] = np.arange(len(segment))  # of the rows of a segment, the last one written stays
    work = np.zeros((len(first), len(KINDS)))
    np.add.at(work, segment, program.work_ns)
    less = np.zeros_like(program.work_ns)
    for kind in (_HOST, _LOADER, _COMPUTE, _MEMORY):
        own = work[:, kind]
        excess = _excess(position[first], own, exactly=exactly)
        less[:, kind] = program.work_ns[:, kind] * _share(excess, own)[segment]
        less[last, kind] += np.where(own > 0, 0.0, np.minimum(excess, 0.0))  # work that only its peers have
    transfer = np.zeros(len(program.member))
    ends = np.flatnonzero(~program.is_start & (program.meeting != UNKNOWN))
    place = _position_of_ends(program, position)[ends]
    transfer[ends] = _excess(place, program.transfer_ns[ends], exactly=exactly)
    return Shorter(less, transfer)


def _segments(program: JointProgram) -> I64:
    """Number of starts before each event."""
    found: I64 = np.cumsum(program.is_start) - program.is_start
    return found


def _position_of_ends(program: JointProgram, position: I64) -> I64:
    """For each event the position of its meeting; it is the same on all its ranks."""
    of_meeting = np.full(len(program.sizes) + 1, UNKNOWN)
    of_meeting[program.meeting[program.is_start]] = position[program.is_start]
    found: I64 = of_meeting[program.meeting]
    return found


def _excess(position: I64, values: F64, *, exactly: bool) -> F64:
    """How far each value is above the median of its position; of two values above the lower one.

    Values below it are not above it by less than nothing, unless `exactly`.
    """
    if not len(values):
        return np.zeros(0)
    order = np.lexsort((values, position))
    _, code = group(position)
    counts = count_by(code, int(code.max()) + 1)
    opens = np.cumsum(counts) - counts
    ordered = values[order]
    middle = (ordered[opens + (counts - 1) // 2] + ordered[opens + counts // 2]) / 2
    usual = np.where(counts == 2, ordered[opens], middle)[code]
    excess: F64 = values - usual
    return excess if exactly else np.maximum(0.0, excess)


def _share(part: F64, whole: F64) -> F64:
    """Each part as a share of its whole; 0 of nothing."""
    found: F64 = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return found
