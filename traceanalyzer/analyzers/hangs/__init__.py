"""Who holds up a run that hangs, by the dumps that torch's flight recorder wrote on each rank?

A rank holds up the others if they wait for it and it waits for nobody: its host is elsewhere (it never came), or its
device stopped (others finished what it did not, and wait). Where ranks called different operations, these hold up the
run. All others only wait, in a chain from group to group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analyzers.hangs import lateness, limits
from traceanalyzer.analyzers.hangs.model import (
    CalledOperation,
    Disagreement,
    FlightGroup,
    FlightRank,
    Hangs,
    NearLimit,
    RankFault,
    RankWait,
)
from traceanalyzer.analyzers.hangs.progress import GroupProgress, Meeting, Run, join, row_of
from traceanalyzer.analyzers.hangs.watchdog_logs import clock
from traceanalyzer.knowledge import collectives
from traceanalyzer.trace.flight_recorder import COMPLETED, SCHEDULED, STARTED, FlightDump, RecordedGroup

__all__ = ["FlightGroup", "FlightRank", "Hangs", "RankWait", "analyze"]

_UNEVEN = frozenset(("all_to_all", "gather", "scatter"))
"""Operations whose inputs may differ in size from rank to rank."""
_COMPARED = ("name", "shape", "dtype")
_MOST_WAITS = 200
"""Waits that a result keeps, the earliest first."""


class _Suspects(msgspec.Struct, frozen=True):
    """Ranks that may hold up a run, by what is seen of them."""

    disagree: tuple[int, ...]
    """Those that called something else than most."""
    stopped: tuple[int, ...]
    """Those for whose devices others wait."""
    unfinished: tuple[int, ...]
    """Those whose devices are behind, though nobody waits for them."""
    never_came: tuple[int, ...]
    knot: tuple[int, ...]
    """Those that wait for each other."""
    without: tuple[int, ...]
    """Those without a dump."""


def analyze(dumps: Mapping[int, FlightDump]) -> Hangs:
    """Find out who holds up a run.

    Args:
        dumps: The dumps by rank.
    """
    run = join(dumps)
    start = _start(dumps.values())
    is_logged = _is_logged(run)
    differing = _disagreements(run)
    suspects = _suspects(run, _minority(differing))
    late = lateness.find(run) if not run.meetings else None
    near = limits.nearest(run)
    verdict, ranks = _verdict(run, suspects, late, near)
    return Hangs(
        verdict,
        ranks,
        suspects.never_came,
        suspects.stopped,
        differing,
        _circle(run.edges, suspects.knot) if verdict == "circle" else (),
        suspects.without,
        len(run.members),
        len(dumps),
        sum(len(dump.operations) for dump in dumps.values()),
        _timeout(run),
        tuple(_wait(run, meeting, start) for meeting in run.meetings[:_MOST_WAITS]),
        _per_rank(run, _roles(run, suspects, verdict, ranks), start),
        _groups(run),
        late,
        None if near is None else _near_limit(run, near),
        is_logged,
        run.hides_p2p,
        tuple(
            RankFault(rank, fault.communicator, fault.what, fault.value)
            for rank, dump in sorted(dumps.items())
            for fault in dump.faults[:1]
        ),
        clock(start) if is_logged and start is not None else None,
    )


def _is_logged(run: Run) -> bool:
    """Whether a log was read, which is judged by what it says."""
    return any(dump.is_logged for dump in run.dumps.values())


def _suspects(run: Run, disagree: tuple[int, ...]) -> _Suspects:
    """The ranks that may hold up the others, those that differ from most being known."""
    behind = tuple(sorted({rank for meeting in run.meetings for rank in run.stopped(meeting)}))
    stopped, unfinished = (behind, ()) if _is_awaited(run, behind) else ((), behind)
    awaited = {rank for others in run.edges.values() for rank in others}
    never_came = tuple(sorted(awaited - run.waiting - set(stopped)))
    without = tuple(rank for rank in run.members if rank not in run.dumps)
    return _Suspects(disagree, stopped, unfinished, never_came, _knot(run.edges), without)


def _is_awaited(run: Run, ranks: tuple[int, ...]) -> bool:
    """Whether others wait for some ranks; without, these may only be in their last operation, as in a healthy run."""
    named = set(ranks)
    if any(not named.isdisjoint(others) for rank, others in run.edges.items() if rank not in named):
        return True
    return any(not named.isdisjoint(meeting.rows) and not named.issuperset(meeting.rows) for meeting in run.meetings)


def _verdict(
    run: Run, suspects: _Suspects, late: lateness.LateRank | None, near: limits.Near | None
) -> tuple[str, tuple[int, ...]]:
    """The verdict, and the ranks that it names; where all wait, what may still explain it."""
    if late is not None:
        return "slow", (late.rank,)
    verdict, ranks = _of_waits(run, suspects)
    if verdict != "all-waiting":
        return verdict, ranks
    if suspects.unfinished:
        return "unfinished", suspects.unfinished
    if near is not None and near.last and near.share >= limits.NEAR:
        return "timeout", near.last
    return verdict, ranks


def _roles(run: Run, suspects: _Suspects, verdict: str, ranks: tuple[int, ...]) -> dict[int, str]:
    """What ranks do, the most certain last, which counts; those without an entry have finished."""
    return {
        **dict.fromkeys(suspects.without, "no-dump"),
        **dict.fromkeys(run.waiting, "waits"),
        **dict.fromkeys(ranks if verdict in ("not-begun", "unfinished") else (), verdict),
        **dict.fromkeys(suspects.never_came, "never-came"),
        **dict.fromkeys(suspects.stopped, "unfinished" if _is_logged(run) else "stopped"),
        **dict.fromkeys(suspects.disagree, "disagrees"),
    }


def _of_waits(run: Run, suspects: _Suspects) -> tuple[str, tuple[int, ...]]:
    """The first verdict that holds, the most certain first, and the ranks that it names."""
    if suspects.disagree:
        return "mismatch", suspects.disagree
    if suspects.stopped:
        return "stopped", tuple(sorted({*suspects.stopped, *suspects.never_came}))
    if suspects.never_came:
        return "missing", suspects.never_came
    whole = [meeting for meeting in run.meetings if not meeting.absent and not meeting.behind]
    undumped = next((meeting.undumped for meeting in whole if meeting.undumped), ())
    if undumped:
        others = [set(meeting.undumped) for meeting in whole if meeting.undumped]
        shared = set.intersection(*others)
        return "no-dump", tuple(sorted(shared or set(undumped)))
    if suspects.knot:
        return "circle", suspects.knot
    return _of_presence(run)


def _of_presence(run: Run) -> tuple[str, tuple[int, ...]]:
    """The verdict where nobody is known to be missing, and the ranks that it names."""
    not_begun = _not_begun(run)
    if not_begun or not run.meetings:
        return "not-begun" if not_begun else "none", not_begun
    is_known = any(meeting.group.ranks or meeting.sequence < 0 for meeting in run.meetings)
    return "all-waiting" if is_known or _is_logged(run) or len(run.dumps) == 1 else "unknown", ()


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


def _per_rank(run: Run, roles: Mapping[int, str], start: int | None) -> tuple[FlightRank, ...]:
    return tuple(_rank(run, rank, roles.get(rank, "done"), start) for rank in run.members)


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
    rows = [_group(group, progress) for group, progress in run.progress.items()]
    return tuple(sorted((row for row in rows if row is not None), key=_order))


def _group(group: RecordedGroup, progress: Mapping[int, GroupProgress]) -> FlightGroup | None:
    """How far the ranks of a group came; None if no rank counted its collectives."""
    dumped = tuple(sorted(progress))
    enqueued = _counted({rank: progress[rank].enqueued for rank in dumped})
    completed = _counted({rank: progress[rank].completed for rank in dumped}).values()
    if not enqueued:
        return None
    least, most = min(enqueued.values()), max(enqueued.values())
    return FlightGroup(
        group.name,
        group.description,
        group.ranks or dumped,
        least,
        most,
        min(completed, default=None),
        max(completed, default=None),
        tuple(rank for rank, number in enqueued.items() if number == least < most),
        dumped,
        tuple(enqueued.get(rank) for rank in dumped),
        tuple(progress[rank].completed for rank in dumped),
    )


def _counted(numbers: Mapping[int, int | None]) -> dict[int, int]:
    """The numbers of the ranks that counted any."""
    return {rank: number for rank, number in numbers.items() if number is not None and number >= 0}


def _order(row: FlightGroup) -> tuple[Any, ...]:
    is_level = not row.last and row.least_completed == row.most_completed
    number = int(row.group) if row.group.isdecimal() else np.iinfo(np.int64).max
    return is_level, -len(row.ranks), int(number), row.group
