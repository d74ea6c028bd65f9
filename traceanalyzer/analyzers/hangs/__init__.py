"""Who holds up a run that hangs, by the dumps that torch's flight recorder wrote on each rank?

A rank holds up the others if they wait for it and it waits for nobody: its host is elsewhere (it never came), or its
device stopped (others finished what it did not). Where ranks called different operations, these hold up the run. All
others only wait, in a chain from group to group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analyzers.hangs import lateness
from traceanalyzer.analyzers.hangs.lateness import LateRank
from traceanalyzer.analyzers.hangs.progress import Meeting, Run, join, row_of
from traceanalyzer.knowledge import collectives
from traceanalyzer.trace.flight_recorder import COMPLETED, FlightDump, RecordedGroup

_UNEVEN = frozenset(("all_to_all", "gather", "scatter"))
"""Operations whose inputs may differ in size from rank to rank."""
_COMPARED = ("name", "shape", "dtype")
_MOST_WAITS = 200
"""Waits that a result keeps, the earliest first."""


class CalledOperation(msgspec.Struct, frozen=True):
    """An operation as a rank called it."""

    operation: str
    """Name of the operation; empty if no ring has it any more."""
    group: str
    """Name of the process group, as torch counts them."""
    description: str
    """What the program calls the group; empty if nothing."""
    sequence: int | None
    """Number of the collective in its group; null for point-to-point operations."""
    shape: str
    """Sizes of its inputs; empty if unknown."""
    dtype: str
    """Types of its inputs; empty if unknown."""
    line: str | None
    """Innermost line of the program that called it; null without recorded frames."""

    @property
    def title(self) -> str:
        """The group as people know it: what the program calls it, with torch's name."""
        return f"{self.description} ({self.group})" if self.description else f"group {self.group}"


class RankWait(msgspec.Struct, frozen=True):
    """An operation in which ranks wait, and whom for."""

    called: CalledOperation
    """The operation, as one of them called it."""
    waiting: tuple[int, ...]
    """The ranks that wait in it."""
    absent: tuple[int, ...]
    """Ranks that have not called it."""
    behind: tuple[int, ...]
    """Ranks whose device has not finished an earlier one of the group."""
    undumped: tuple[int, ...]
    """Its members without a dump."""
    passed: tuple[int, ...]
    """Ranks whose device has finished it."""
    called_ns: int | None
    """When the last of the waiting ranks called it, in ns since the first operation in any ring; null if unknown."""


class Disagreement(msgspec.Struct, frozen=True):
    """Ranks that called something else than the others at the same place of a group."""

    ranks: tuple[int, ...]
    """The ranks that called this."""
    called: CalledOperation
    """What they called."""


class FlightRank(msgspec.Struct, frozen=True):
    """What one rank did last."""

    rank: int
    """Number of the rank."""
    role: str
    """`never-came`, `stopped`, `disagrees`, `waits`, `done` (waits nowhere) or `no-dump`."""
    last: CalledOperation | None
    """The last operation that it called; null if its ring is empty."""
    is_finished: bool
    """Whether its device has finished that."""
    called_ns: int | None
    """When it called that, in ns since the first operation in any ring; null if unknown."""
    waits_for: tuple[int, ...]
    """The ranks that it waits for."""


class FlightGroup(msgspec.Struct, frozen=True):
    """How far the members of a group came."""

    group: str
    """Name of the process group, as torch counts them."""
    description: str
    """What the program calls it; empty if nothing."""
    ranks: tuple[int, ...]
    """The ranks that are its members."""
    least_enqueued: int | None
    """Number of the last collective that all members with a dump have called; null if unknown."""
    most_enqueued: int | None
    """Number of the last collective that any member has called; null if unknown."""
    least_completed: int | None
    """Number of the last collective that the devices of all members with a dump have finished; null if unknown."""
    most_completed: int | None
    """Number of the last collective that the device of any member has finished; null if unknown."""
    last: tuple[int, ...]
    """Members that have called least, if not all have called as many."""


class Hangs(msgspec.Struct, frozen=True):
    """Why a run stands still, or that it does not."""

    verdict: str
    """`mismatch`, `stopped`, `missing`, `no-dump`, `circle`, `all-waiting`, `slow` or `none`; the first that holds."""
    ranks: tuple[int, ...]
    """The ranks that hold up the others; all that could, if it is not known which."""
    never_came: tuple[int, ...]
    """Ranks that others wait for and that wait nowhere."""
    stopped: tuple[int, ...]
    """Ranks whose device did not finish what others finished."""
    disagreements: tuple[Disagreement, ...]
    """What ranks called at the first place where they called different things; empty if they agree."""
    circle: tuple[int, ...]
    """Ranks that wait for each other in a circle."""
    without_dump: tuple[int, ...]
    """Ranks of the run without a dump."""
    world_size: int
    """Number of ranks of the run."""
    dumps: int
    """Number of dumps."""
    operations: int
    """Number of operations in all rings."""
    timeout_ms: int | None
    """How long the operations in which ranks wait may take, in ms; the shortest; null if unknown."""
    waits: tuple[RankWait, ...]
    """Where ranks wait, the earliest call first; the first that do."""
    per_rank: tuple[FlightRank, ...]
    """What each rank did last, by rank."""
    groups: tuple[FlightGroup, ...]
    """How far each group came, those first whose members differ."""
    late: LateRank | None
    """The rank that comes last again and again in a run that does not stand still; null if there is none."""

    @property
    def decisive(self) -> RankWait | None:
        """The wait that shows the verdict best."""
        return self.held_by(self.stopped) if self.verdict == "stopped" else self.for_ranks(self.ranks)

    def held_by(self, ranks: Iterable[int]) -> RankWait | None:
        """Where most of some ranks did not finish what others finished; the earliest of equals."""
        named = set(ranks)
        held = (wait for wait in self.waits if wait.passed)
        return max(held, key=lambda wait: len(named & set(wait.waiting)), default=None)

    def for_ranks(self, ranks: Iterable[int]) -> RankWait | None:
        """The wait that is for most of some ranks, of most others; the earliest of equals."""
        named = set(ranks)

        def weight(wait: RankWait) -> tuple[int, bool, int]:
            awaited = named & {*wait.absent, *wait.behind, *wait.undumped}
            return len(awaited), wait.called.sequence is not None, len(wait.waiting)

        return max(self.waits, key=weight, default=None)

    @property
    def waiting(self) -> int:
        """How many ranks wait and hold up nobody."""
        return sum(row.role == "waits" for row in self.per_rank)


def analyze(dumps: Mapping[int, FlightDump]) -> Hangs:
    """Find out who holds up a run.

    Args:
        dumps: The dumps by rank.
    """
    run = join(dumps)
    start = _start(dumps.values())
    differing = _disagreements(run)
    disagree = _minority(differing)
    stopped = tuple(sorted({rank for meeting in run.meetings for rank in run.stopped(meeting)}))
    came_late = {rank for others in run.edges.values() for rank in others} - run.waiting - set(stopped)
    never_came = tuple(sorted(came_late))
    without = tuple(rank for rank in run.members if rank not in dumps)
    circle = _circle(run.edges)
    late = lateness.find(run) if not run.meetings else None
    verdict, ranks = _verdict(run, disagree, stopped, never_came, circle)
    if late is not None:
        verdict, ranks = "slow", (late.rank,)
    roles = {
        **dict.fromkeys(without, "no-dump"),
        **dict.fromkeys(run.waiting, "waits"),
        **dict.fromkeys(never_came, "never-came"),
        **dict.fromkeys(stopped, "stopped"),
        **dict.fromkeys(disagree, "disagrees"),
    }
    return Hangs(
        verdict,
        ranks,
        never_came,
        stopped,
        differing,
        circle if verdict == "circle" else (),
        without,
        len(run.members),
        len(dumps),
        sum(len(dump.operations) for dump in dumps.values()),
        _timeout(run),
        tuple(_wait(run, meeting, start) for meeting in run.meetings[:_MOST_WAITS]),
        tuple(_rank(run, rank, roles.get(rank, "done"), start) for rank in run.members),
        _groups(run),
        late,
    )


def _verdict(
    run: Run, disagree: tuple[int, ...], stopped: tuple[int, ...], never_came: tuple[int, ...], circle: tuple[int, ...]
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
    if circle:
        return "circle", circle
    return ("all-waiting", ()) if run.meetings else ("none", ())


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


def _circle(edges: Mapping[int, frozenset[int]]) -> tuple[int, ...]:
    """The ranks of the first circle of waits, in its order; empty without one."""
    done: set[int] = set()
    for first in sorted(edges):
        path: list[int] = []
        at: int | None = first
        while at is not None and at not in done and at not in path:
            path.append(at)
            at = min((rank for rank in edges.get(at, ()) if rank in edges), default=None)
        if at in path:
            return tuple(path[path.index(at) :])
        done.update(path)
    return ()


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
        rows.append(FlightGroup(group.name, group.description, group.ranks, least, most, first, final, last))
    return tuple(sorted(rows, key=_order))


def _order(row: FlightGroup) -> tuple[Any, ...]:
    is_level = not row.last and row.least_completed == row.most_completed
    number = int(row.group) if row.group.isdecimal() else np.iinfo(np.int64).max
    return is_level, -len(row.ranks), int(number), row.group
