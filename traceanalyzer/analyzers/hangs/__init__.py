"""Who holds up a run that hangs, by the dumps that torch's flight recorder wrote on each rank?

A rank holds up the others if they wait for it and it waits for nobody: its host is elsewhere (it never came), or its
device stopped (others finished what it did not, and wait). Where ranks called different operations, these hold up the
run. All others only wait, in a chain from group to group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from traceanalyzer.analyzers.hangs import lateness, limits
from traceanalyzer.analyzers.hangs.model import (
    CalledOperation,
    Disagreement,
    FlightGroup,
    FlightRank,
    Hangs,
    NearLimit,
    RankWait,
)
from traceanalyzer.analyzers.hangs.progress import Meeting, Run, join, row_of
from traceanalyzer.analyzers.hangs.watchdog_logs import clock
from traceanalyzer.knowledge import collectives
from traceanalyzer.trace.flight_recorder import COMPLETED, SCHEDULED, STARTED, FlightDump, RecordedGroup

__all__ = ["FlightGroup", "FlightRank", "Hangs", "RankWait", "analyze"]

_UNEVEN = frozenset(("all_to_all", "gather", "scatter"))
"""Operations whose inputs may differ in size from rank to rank."""
_COMPARED = ("name", "shape", "dtype")
_MOST_WAITS = 200
"""Waits that a result keeps, the earliest first."""


def analyze(dumps: Mapping[int, FlightDump]) -> Hangs:
    """Find out who holds up a run.

    Args:
        dumps: The dumps by rank.
    """
    run = join(dumps)
    start = _start(dumps.values())
    is_logged = any(dump.is_logged for dump in dumps.values())
    differing = _disagreements(run)
    disagree = _minority(differing)
    behind = tuple(sorted({rank for meeting in run.meetings for rank in run.stopped(meeting)}))
    stopped, unfinished = (behind, ()) if _is_awaited(run, behind) else ((), behind)
    came_late = {rank for others in run.edges.values() for rank in others} - run.waiting - set(stopped)
    never_came = tuple(sorted(came_late))
    without = tuple(rank for rank in run.members if rank not in dumps)
    knot = _knot(run.edges)
    late = lateness.find(run) if not run.meetings else None
    near = limits.nearest(run)
    verdict, ranks = _verdict(run, disagree, stopped, never_came, knot)
    not_begun = ranks if verdict == "not-begun" else ()
    if verdict == "all-waiting" and unfinished:
        verdict, ranks = "unfinished", unfinished
    elif verdict == "all-waiting" and near is not None and near.last and near.share >= limits.NEAR:
        verdict, ranks = "timeout", near.last
    if late is not None:
        verdict, ranks = "slow", (late.rank,)
    roles = {
        **dict.fromkeys(without, "no-dump"),
        **dict.fromkeys(run.waiting, "waits"),
        **dict.fromkeys(not_begun, "not-begun"),
        **dict.fromkeys(unfinished if verdict == "unfinished" else (), "unfinished"),
        **dict.fromkeys(never_came, "never-came"),
        **dict.fromkeys(stopped, "unfinished" if is_logged else "stopped"),
        **dict.fromkeys(disagree, "disagrees"),
    }
    return Hangs(
        verdict,
        ranks,
        never_came,
        stopped,
        differing,
        _circle(run.edges, knot) if verdict == "circle" else (),
        without,
        len(run.members),
        len(dumps),
        sum(len(dump.operations) for dump in dumps.values()),
        _timeout(run),
        tuple(_wait(run, meeting, start) for meeting in run.meetings[:_MOST_WAITS]),
        tuple(_rank(run, rank, roles.get(rank, "done"), start) for rank in run.members),
        _groups(run),
        late,
        None if near is None else _near_limit(run, near),
        is_logged,
        clock(start) if is_logged and start is not None else None,
    )


def _is_awaited(run: Run, ranks: tuple[int, ...]) -> bool:
    """Whether others wait for some ranks; without, these may only be in their last operation, as in a healthy run."""
    named = set(ranks)
    if any(not named.isdisjoint(others) for rank, others in run.edges.items() if rank not in named):
        return True
    return any(not named.isdisjoint(meeting.rows) and not named.issuperset(meeting.rows) for meeting in run.meetings)


def _verdict(
    run: Run, disagree: tuple[int, ...], stopped: tuple[int, ...], never_came: tuple[int, ...], knot: tuple[int, ...]
) -> tuple[str, tuple[int, ...]]:
    """The first verdict that holds, the most certain first, and the ranks that it names."""
    if disagree:
        return "mismatch", disagree
    if stopped:
        return "stopped", tuple(sorted({*stopped, *never_came}))
    if never_came:
        return "missing", never_came
    whole = [meeting for meeting in run.meetings if not meeting.absent and not meeting.behind]
    undumped = next((meeting.undumped for meeting in whole if meeting.undumped), ())
    if undumped:
        others = [set(meeting.undumped) for meeting in whole if meeting.undumped]
        shared = set.intersection(*others)
        return "no-dump", tuple(sorted(shared or set(undumped)))
    if knot:
        return "circle", knot
    return _of_presence(run)


def _of_presence(run: Run) -> tuple[str, tuple[int, ...]]:
    """The verdict where nobody is known to be missing, and the ranks that it names."""
    not_begun = _not_begun(run)
    if not_begun or not run.meetings:
        return "not-begun" if not_begun else "none", not_begun
    is_known = any(meeting.group.ranks or meeting.sequence < 0 for meeting in run.meetings)
    is_logged = any(dump.is_logged for dump in run.dumps.values())  # a log is judged by what it says
    return "all-waiting" if is_known or is_logged or len(run.dumps) == 1 else "unknown", ()


def _disagreements(run: Run) -> tuple[Disagreement, ...]:
    """What ranks called at the first unfinished place of a group where they called different things."""
    seen: set[RecordedGroup] = set()
    for meeting in run.meetings:
        if meeting.sequence < 0 or meeting.group in seen:
            continue
        seen.add(meeting.group)
        calls: dict[tuple[str, ...], list[int]] = {}
        for rank, own in run.progress[meeting.group].items():
            row = row_of(run.dumps[rank], own.code, meeting.sequence)
            if row >= 0:
                calls.setdefault(_compared(run, rank, row), []).append(rank)
        if len(calls) > 1:
            ordered = sorted(calls.values(), key=lambda ranks: (-len(ranks), ranks))
            return tuple(Disagreement(tuple(sorted(ranks)), _called(run, meeting, ranks[0])) for ranks in ordered)
    return ()


def _compared(run: Run, rank: int, row: int) -> tuple[str, ...]:
    """What has to be equal on all ranks that take part in an operation."""
    name, shape, dtype = (run.text(rank, row, column) for column in _COMPARED)
    return name, "" if collectives.operation(name) in _UNEVEN else shape, dtype


def _minority(differing: tuple[Disagreement, ...]) -> tuple[int, ...]:
    """The ranks that differ from most; all if no call is that of more than half."""
    if not differing:
        return ()
    every = sum(len(row.ranks) for row in differing)
    is_clear = 2 * len(differing[0].ranks) > every
    return tuple(sorted(rank for row in differing[is_clear:] for rank in row.ranks))


def _not_begun(run: Run) -> tuple[int, ...]:
    """Ranks whose device has not begun an operation that those of others have begun: earlier work keeps it busy."""
    for meeting in run.meetings:
        states = {rank: run.dumps[rank].operations.state[row] for rank, row in meeting.rows.items() if row >= 0}
        waiting = [rank for rank, state in states.items() if state == SCHEDULED]
        elsewhere = {rank for other in run.meetings if other is not meeting for rank in other.rows}
        held = sorted(set(waiting) - elsewhere)
        if held and meeting.sequence >= 0 and any(state == STARTED for state in states.values()):
            return tuple(held)
    return ()


def _knot(edges: Mapping[int, frozenset[int]]) -> tuple[int, ...]:
    """All ranks that wait for each other in circles: those left if all are taken out that nobody or nothing holds."""
    left = set(edges)
    while True:
        awaited = {rank for other in left for rank in edges[other] if rank in left}
        kept = {rank for rank in awaited if not edges[rank].isdisjoint(awaited)}
        if kept == left:
            return tuple(sorted(left))
        left = kept


def _circle(edges: Mapping[int, frozenset[int]], knot: tuple[int, ...]) -> tuple[int, ...]:
    """One circle of waits among these ranks, in its order."""
    path = [knot[0]]
    while True:
        after = min(edges[path[-1]].intersection(knot))
        if after in path:
            return tuple(path[path.index(after) :])
        path.append(after)


def _start(dumps: Iterable[FlightDump]) -> int | None:
    """When the first operation in any ring was called, in ns since 1970."""
    times = [dump.operations.created_ns for dump in dumps]
    firsts = [int(column[column >= 0].min()) for column in times if (column >= 0).any()]
    return min(firsts, default=None)


def _since(run: Run, rank: int, row: int, start: int | None) -> int | None:
    time = int(run.dumps[rank].operations.created_ns[row]) if row >= 0 else -1
    return None if start is None or time < 0 else time - start


def _timeout(run: Run) -> int | None:
    found = (
        int(run.dumps[rank].operations.timeout_ms[row])
        for meeting in run.meetings
        for rank, row in meeting.rows.items()
        if row >= 0
    )
    return min((timeout for timeout in found if timeout > 0), default=None)


def _called(run: Run, meeting: Meeting, rank: int) -> CalledOperation:
    """An operation of a meeting, as a rank called it."""
    own = run.progress.get(meeting.group, {}).get(rank)
    row = meeting.rows.get(rank, -1)
    if row < 0 and own is not None:
        row = row_of(run.dumps[rank], own.code, meeting.sequence)
    return _operation(run, rank, row, meeting.group, meeting.sequence)


def _operation(run: Run, rank: int, row: int, group: RecordedGroup, sequence: int) -> CalledOperation:
    name, shape, dtype, line = (run.text(rank, row, column) for column in (*_COMPARED, "line"))
    number = sequence if sequence >= 0 else None
    return CalledOperation(
        name.partition(":")[2] or name, group.name, group.description, number, shape, dtype, line or None
    )


def _near_limit(run: Run, near: limits.Near) -> NearLimit:
    sequence = -1 if near.is_p2p else near.sequence
    called = _operation(run, near.rank, near.row, near.group, sequence)
    return NearLimit(called, near.taken_ns, near.limit_ns, near.last or (near.rank,), not near.last)


def _wait(run: Run, meeting: Meeting, start: int | None) -> RankWait:
    shown = next((rank for rank, row in sorted(meeting.rows.items()) if row >= 0), meeting.waiting[0])
    times = [_since(run, rank, row, start) for rank, row in meeting.rows.items()]
    return RankWait(
        _called(run, meeting, shown),
        meeting.waiting,
        meeting.absent,
        meeting.behind,
        meeting.undumped,
        meeting.passed,
        max((time for time in times if time is not None), default=None),
    )


def _rank(run: Run, rank: int, role: str, start: int | None) -> FlightRank:
    dump = run.dumps.get(rank)
    waits_for = tuple(sorted(run.edges.get(rank, ())))
    if dump is None or not len(dump.operations):
        return FlightRank(rank, role, None, False, None, waits_for)
    operations, row = dump.operations, len(dump.operations) - 1
    group = dump.groups[int(operations.group[row])]
    sequence = -1 if operations.is_p2p[row] else int(operations.sequence[row])
    called = _operation(run, rank, row, group, sequence)
    is_finished = bool(operations.state[row] == COMPLETED)
    return FlightRank(rank, role, called, is_finished, _since(run, rank, row, start), waits_for)


def _groups(run: Run) -> tuple[FlightGroup, ...]:
    """All groups in which collectives were counted, those first whose members differ."""
    rows = []
    for group, progress in run.progress.items():
        enqueued = {
            rank: own.enqueued for rank, own in progress.items() if own.enqueued is not None and own.enqueued >= 0
        }
        completed = [own.completed for own in progress.values() if own.completed is not None and own.completed >= 0]
        if not enqueued:
            continue
        least, most = min(enqueued.values()), max(enqueued.values())
        last = tuple(sorted(rank for rank, number in enqueued.items() if number == least)) if least < most else ()
        first, final = min(completed, default=None), max(completed, default=None)
        dumped = tuple(sorted(progress))
        called = tuple(enqueued.get(rank) for rank in dumped)
        done = tuple(progress[rank].completed for rank in dumped)
        described = (group.name, group.description, group.ranks or dumped)
        rows.append(FlightGroup(*described, least, most, first, final, last, dumped, called, done))
    return tuple(sorted(rows, key=_order))


def _order(row: FlightGroup) -> tuple[Any, ...]:
    is_level = not row.last and row.least_completed == row.most_completed
    number = int(row.group) if row.group.isdecimal() else np.iinfo(np.int64).max
    return is_level, -len(row.ranks), int(number), row.group
