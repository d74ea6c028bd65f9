"""How far did each rank come in each of its groups, and whom does it wait for?

Collectives are numbered per group, and all members call them in one order. So a member that has called fewer than the
one that another waits in was not there yet; one whose device has not finished an earlier one holds up the later ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np

from traceanalyzer.knowledge import collectives
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.flight_recorder import COMPLETED, FlightDump, RecordedGroup

_P2P = re.compile(r"(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})\Z")
_EVERY = "default_pg"
"""What torch calls the group of all ranks."""
_TOGETHER = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"))
"""Operations that no member finishes before all have taken part; the root of a broadcast may."""


class GroupProgress(msgspec.Struct, frozen=True):
    """How far one rank came in one group; None is unknown."""

    code: int
    """Position of the group in the dump of the rank."""
    enqueued: int | None
    """Number of the last collective that the host called."""
    completed: int | None
    """Number of the last one before the first that is not finished."""
    pending: int | None
    """Number of the first one that is called and not finished."""

    def has_called(self, sequence: int) -> bool:
        """Whether the host has called a collective."""
        return self.enqueued is not None and self.enqueued >= sequence

    def has_not_called(self, sequence: int) -> bool:
        """Whether it is known that the host has not called a collective."""
        return self.enqueued is not None and self.enqueued < sequence

    def is_behind(self, sequence: int) -> bool:
        """Whether the host has called a collective, and the device has not finished an earlier one."""
        return self.has_called(sequence) and self.pending is not None and self.pending < sequence

    def has_finished(self, sequence: int) -> bool:
        """Whether the device has finished a collective."""
        return self.completed is not None and self.completed >= sequence


class Meeting(msgspec.Struct, frozen=True):
    """A collective in which ranks wait, or point-to-point operations that wait for one peer."""

    group: RecordedGroup
    sequence: int
    """Number of the collective; -1 for point-to-point operations."""
    rows: Mapping[int, int]
    """The waiting ranks, each with the row of its operation; -1 if its ring does not have it any more."""
    absent: tuple[int, ...] = ()
    """Members that have not called it."""
    behind: tuple[int, ...] = ()
    """Members that called it, but whose device has not finished an earlier one of the group."""
    undumped: tuple[int, ...] = ()
    """Members without a dump."""
    passed: tuple[int, ...] = ()
    """Members whose device has finished it."""

    @property
    def waiting(self) -> tuple[int, ...]:
        """The ranks that wait in it."""
        return tuple(sorted(self.rows))


class Run(msgspec.Struct, frozen=True):
    """The dumps of a run by rank, and what they say together."""

    dumps: Mapping[int, FlightDump]
    progress: Mapping[RecordedGroup, Mapping[int, GroupProgress]]
    meetings: tuple[Meeting, ...]
    """Where ranks wait, the earliest call first."""
    edges: Mapping[int, frozenset[int]] = {}
    """Whom each rank waits for, if it has a dump."""

    @property
    def members(self) -> tuple[int, ...]:
        """All ranks that a dump or a group names."""
        return tuple(sorted({*self.dumps, *(rank for group in self.progress for rank in group.ranks)}))

    @property
    def hides_p2p(self) -> bool:
        """Whether ranks may wait in sends and receives that their backend does not record."""
        return any(dump.hides_p2p for dump in self.dumps.values())

    @property
    def waiting(self) -> frozenset[int]:
        """The ranks that wait somewhere."""
        return frozenset(rank for meeting in self.meetings for rank in meeting.rows)

    def text(self, rank: int, row: int, column: str) -> str:
        """A text of an operation; empty if it is unknown."""
        dump = self.dumps[rank]
        code = int(getattr(dump.operations, column)[row]) if row >= 0 else -1
        return dump.texts[code] if code >= 0 else ""

    def operation(self, meeting: Meeting) -> str:
        """The name of the operation in which ranks wait; empty if no ring has it."""
        names = (self.text(rank, row, "name") for rank, row in meeting.rows.items())
        return next((name.removeprefix("nccl:").removeprefix("gloo:") for name in names if name), "")

    def stopped(self, meeting: Meeting) -> tuple[int, ...]:
        """Ranks whose device did not finish an operation that others have finished, which takes part of all."""
        is_together = collectives.operation(self.operation(meeting)) in _TOGETHER
        return meeting.waiting if meeting.passed and is_together else ()


def join(dumps: Mapping[int, FlightDump]) -> Run:
    """Put the dumps of a run together."""
    identities = _identities(dumps)
    mixed = {
        identities[rank][int(code)]
        for rank, dump in dumps.items()
        for code in distinct(dump.operations.group[dump.operations.is_p2p])
    }
    progress: dict[RecordedGroup, dict[int, GroupProgress]] = {}
    for rank, dump in dumps.items():
        for code, group in enumerate(identities[rank]):
            progress.setdefault(group, {})[rank] = _progress(dump, code, is_mixed=group in mixed)
    run = Run(dumps, progress, ())
    found = [meeting for group in progress for meeting in _meetings(run, group)]
    found += _of_peers(run, identities)
    ordered = sorted(found, key=lambda meeting: (_since(run, meeting), meeting.group.name, meeting.sequence))
    edges: defaultdict[int, set[int]] = defaultdict(set)
    for meeting in ordered:
        for rank in meeting.rows:
            edges[rank].update(meeting.absent, meeting.behind)
    return Run(
        dumps,
        progress,
        tuple(ordered),
        {rank: frozenset(others) for rank, others in edges.items()},
    )


def _identities(dumps: Mapping[int, FlightDump]) -> dict[int, tuple[RecordedGroup, ...]]:
    """The groups of each dump as the run has them: a group whose members a dump does not say is the one of its name.

    The members of the group of all ranks are known where no dump says them: gloo and old versions write none.
    """
    known: dict[str, RecordedGroup] = {}
    for dump in dumps.values():
        for group in dump.groups:
            if group.ranks:
                known.setdefault(group.name, group)
    if len(dumps) > 1:
        stated = (rank for dump in dumps.values() for group in dump.groups for rank in group.ranks)
        every = tuple(range(max(*dumps, *stated) + 1))
        for group in (group for dump in dumps.values() for group in dump.groups if group.description == _EVERY):
            known.setdefault(group.name, RecordedGroup(group.name, _EVERY, every))
    return {
        rank: tuple(group if group.ranks else known.get(group.name, group) for group in dump.groups)
        for rank, dump in dumps.items()
    }


def _progress(dump: FlightDump, code: int, *, is_mixed: bool) -> GroupProgress:
    """How far a rank came in a group, by its ring and by its counters, unless these count other operations, too."""
    operations = dump.operations
    mine = (operations.group == code) & ~operations.is_p2p & (operations.sequence >= 0)
    sequences = operations.sequence[mine]
    unfinished = sequences[operations.state[mine] != COMPLETED]
    counters = None if is_mixed else dump.counters.get(dump.groups[code].name)
    ends = [int(sequences.max())] if len(sequences) else []
    enqueued = max(
        (
            *ends,
            *(() if counters is None or counters.enqueued is None else (counters.enqueued,)),
        ),
        default=None,
    )
    if len(unfinished):
        first = int(unfinished.min())
        return GroupProgress(code, enqueued, first - 1, first)
    completed = counters.completed if counters is not None and counters.completed is not None else enqueued
    if completed is not None and enqueued is not None and completed < enqueued and not len(sequences):
        return GroupProgress(code, enqueued, completed, completed + 1)
    return GroupProgress(code, enqueued, enqueued, None)


def row_of(dump: FlightDump, code: int, sequence: int) -> int:
    """The row of a collective; -1 if the ring does not have it."""
    operations = dump.operations
    rows = np.flatnonzero((operations.group == code) & ~operations.is_p2p & (operations.sequence == sequence))
    return int(rows[-1]) if len(rows) else -1


def _meetings(run: Run, group: RecordedGroup) -> Iterator[Meeting]:
    """The collectives of a group in which ranks wait."""
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    for rank, own in run.progress[group].items():
        if own.pending is not None:
            waiting[own.pending].append(rank)
    for sequence, ranks in sorted(waiting.items()):
        yield _meeting(run, group, sequence, ranks)


def _meeting(run: Run, group: RecordedGroup, sequence: int, ranks: list[int]) -> Meeting:
    """A collective in which ranks wait, with the other members."""
    progress = run.progress[group]

    def others(has: Callable[[GroupProgress, int], bool]) -> tuple[int, ...]:
        return tuple(rank for rank, own in progress.items() if has(own, sequence) and rank not in rows)

    rows = {rank: row_of(run.dumps[rank], progress[rank].code, sequence) for rank in ranks}
    return Meeting(
        group,
        sequence,
        rows,
        others(GroupProgress.has_not_called),
        others(GroupProgress.is_behind),
        tuple(rank for rank in group.ranks if rank not in run.dumps),
        others(GroupProgress.has_finished),
    )


def _of_peers(run: Run, identities: Mapping[int, tuple[RecordedGroup, ...]]) -> Iterator[Meeting]:
    """Point-to-point operations that are not finished, by group and peer; the first of each rank counts.

    Those of which no peer is known, as in a log, are one for all ranks that wait in them.
    """
    unknown: defaultdict[tuple[RecordedGroup, str], dict[int, int]] = defaultdict(dict)
    first: dict[tuple[int, RecordedGroup, str, int], int] = {}
    for rank, dump in run.dumps.items():
        operations = dump.operations
        for row in np.flatnonzero(operations.is_p2p & (operations.state != COMPLETED)).tolist():
            group = identities[rank][int(operations.group[row])]
            if found := _P2P.search(run.text(rank, row, "name")):
                peer = int(found[3])
                peer = group.ranks[peer] if peer < len(group.ranks) else peer
                first.setdefault((rank, group, found[1], peer), row)
            elif dump.is_logged:
                unknown[group, run.text(rank, row, "name")].setdefault(rank, row)
    for (group, _), rows in unknown.items():
        yield Meeting(
            group,
            -1,
            rows,
            undumped=tuple(rank for rank in group.ranks if rank not in run.dumps),
        )
    for (rank, group, way, peer), row in sorted(first.items(), key=lambda item: (item[0][0], item[0][3], item[0][2])):
        answer = (peer, group, "recv" if way == "send" else "send", rank)
        is_known = peer in run.dumps
        yield Meeting(
            group,
            -1,
            {rank: row},
            absent=(peer,) if is_known and answer not in first else (),
            undumped=() if is_known else (peer,),
        )


def _since(run: Run, meeting: Meeting) -> int:
    """When the last of the waiting ranks called it, in ns since 1970; a late time if that is unknown."""
    times = [int(run.dumps[rank].operations.created_ns[row]) for rank, row in meeting.rows.items() if row >= 0]
    return max((time for time in times if time >= 0), default=np.iinfo(np.int64).max)
