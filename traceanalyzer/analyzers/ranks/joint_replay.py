"""Replays all ranks together: the work of each rank between collectives, and the collectives in which they meet.

Ranks meet in all mutual collectives, whether parts are equal or not, and in messages within groups of two ranks, where
each message has its counterpart. Of larger groups a trace does not show between which ranks a message goes.

A rank works until a collective; the collective ends when the last rank has come and data are transferred. No clock is
needed. While a collective runs, the rank's kernels continue, whether others have come or not; work after the collective
follows its end. In a replay without changes each rank's work takes as long as recorded.

Where a device does nothing between collectives, it waits for its host. In a collective it may wait for another rank
while its own host runs ahead: that work is not seen between collectives, and is still to be done if nobody is late. So
no step of a rank takes less than the work of its host, and a delay that all later collectives of a step see costs once.

One pass replays many scenarios, which differ in the times of work and transfers; times are vectors over scenarios.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks import matching, rank_facts
from traceanalyzer.analyzers.ranks.matching import Matched, RankTable
from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind, ProcessGroup, RankEvents, RankFacts
from traceanalyzer.structure.sums import count_by, group, rows_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Array, Bool, take_or

_MESSAGES = frozenset({"send", "recv", "send_recv"})
_MESSAGE = "message"
KINDS = ("host", "loader", "compute", "memory", "communication")
_HOST, _LOADER, _COMPUTE, _MEMORY, _OTHER = range(5)
"""Columns of work; the last is of collectives that no other rank has, which stay as recorded."""


class Meetings(msgspec.Struct, frozen=True):
    """Rows of the table in which ranks meet; columns have one entry per row of the table, -1 where it meets no rank."""

    meeting: I64
    """Number of the meeting of each row, 0..count-1."""
    position: I64
    """Rows of different ranks that do the same thing at the same place of a step have one number."""
    transfer_ns: I64
    """Time from the arrival of the last rank to the end."""
    count: int


def find_meetings(table: RankTable) -> Meetings:
    """Match all collectives and messages that several ranks have within steps."""
    pairs = _with_messages(table)
    candidates = matching.match(pairs)
    matched, offsets = matching.check_clocks(table, candidates) if table.has_clocks else (candidates, {})
    matched = matched.only(_of_steps(table, matched))
    meeting, position, transfer = (np.full(len(table), UNKNOWN) for _ in range(3))
    meeting[matched.rows] = matched.collective
    position[matched.rows] = _positions(pairs, matched)
    transfer[matched.rows] = _transfer(table, matched, matching.aligned(table, matched, offsets)[0])
    return Meetings(meeting, position, transfer, matched.count)


def _with_messages(table: RankTable) -> RankTable:
    """The table with messages of two ranks as mutual, and unequal parts, too, where no clock shows who came last."""
    kinds = tuple(_kind(kind, table.groups[kind.group]) for kind in table.kinds)
    return replace(table, kinds=kinds, has_clocks=True)


def _kind(kind: CollectiveKind, own: ProcessGroup) -> CollectiveKind:
    if kind.operation not in _MESSAGES or not is_pair(own):
        return kind
    return CollectiveKind(_MESSAGE, kind.group, kind.message_bytes, None, is_mutual=True)


def is_pair(own: ProcessGroup) -> bool:
    """Whether a group has two ranks."""
    return own.size == 2 or (own.size is None and len(re.findall(r"\d+", own.ranks or "")) == 2)


def _of_steps(table: RankTable, matched: Matched) -> Bool:
    """Meetings that all their ranks have called within a step."""
    outside = table.step[matched.rows] == UNKNOWN
    is_within: Bool = count_by(matched.collective[outside], matched.count) == 0
    return is_within


def _positions(table: RankTable, matched: Matched) -> I64:
    """For each matched row its position: operation, size of the group and number within the step of its rank.

    So ranks of parallel groups have the same positions. Where ranks have different numbers of an operation, only those
    that meet have.
    """
    rows = np.sort(matched.rows)
    if not len(rows):
        return rows
    operation = _operations(table)[rows]
    step = table.step[rows]
    first, of_rank = group(operation, step, table.member[rows])
    counts = count_by(of_rank, len(first))
    _, of_step = group(operation, step)
    alike = matching.all_equal(of_step, counts[of_rank])
    nth = matching.nth_of(of_rank)
    meeting = np.full(len(table), UNKNOWN)
    meeting[matched.rows] = matched.collective
    # those of ranks with equal numbers have operation, step and number in common; the others only their meeting
    keys = (np.where(alike, UNKNOWN, meeting[rows]), np.where(alike, of_step, 0), np.where(alike, nth, 0))
    position = np.full(len(table), UNKNOWN)
    _, position[rows] = group(*keys)
    return position[matched.rows]


def _operations(table: RankTable) -> I64:
    """For each row a code of its operation and the size of its group."""
    of_kind = [(kind.operation or "", table.groups[kind.group].size or 0) for kind in table.kinds]
    names = sorted(set(of_kind))
    codes = np.array([names.index(name) for name in of_kind])
    return codes[table.kind]


def _transfer(table: RankTable, matched: Matched, start: I64) -> I64:
    """The shortest duration; if parts may be unequal and clocks are known, the time after the last start."""
    dur = table.dur_ns[matched.rows]
    shortest = matched.least(dur)
    unequal = np.clip(dur - (matched.most(start) - start), shortest, dur)
    return np.where(table.is_even[matched.rows] | (not table.has_clocks), shortest, unequal)


def has_few(table: RankTable, world_size: int | None) -> bool:
    """Whether less than half of the ranks of some group are there; where its size is unknown, of the run."""
    rows_of = rows_by(table.group)
    here = [len(distinct(table.member[rows_of(number)])) for number in range(len(table.groups))]
    sizes = [known.size or world_size for known in table.groups]
    return any(size is not None and 0 < 2 * there < size for there, size in zip(here, sizes, strict=True))


class JointProgram(msgspec.Struct, frozen=True):
    """Events of all ranks: rank by rank, each in the order of time. The last event of a rank is its end.

    Events are starts and ends of meetings, and ends of steps.
    """

    member: I64
    """Position of the rank of each event."""
    work_ns: F64
    """Matrix of events by kinds: the rank's own work since its event before."""
    meeting: I64
    """Number of the meeting that starts or ends; -1 at the end of a step."""
    is_start: Bool
    transfer_ns: F64
    """At ends of meetings: time from the arrival of the last rank to the end."""
    sizes: I64
    """Number of ranks of each meeting."""
    members: int
    host_ns: F64
    """At ends of steps: the work of the host, which is the least time of the step."""


class Shorter(msgspec.Struct, frozen=True):
    """The time saved, as a matrix of events by kinds, of transfers and of hosts; negative for what takes longer."""

    work_ns: F64
    transfer_ns: F64
    host_ns: F64


def replay(program: JointProgram, shorter: Shorter) -> F64 | None:
    """Replay the scenarios: as recorded, all that is saved, that of each rank alone, that of each kind alone.

    Returns:
        The end of the last rank in ns in each scenario: 1 + 1 + ranks + (kinds + 1), transfers as the last kind; None
        if the ranks come to their meetings in orders that contradict each other.
    """
    return _Run(program, shorter).end()


class _Run:
    """The state of a replay."""

    def __init__(self, program: JointProgram, shorter: Shorter) -> None:
        self._kinds = program.work_ns.shape[1]
        self._scenarios = 2 + program.members + self._kinds + 1
        self._now = np.zeros((program.members, self._scenarios))
        self._program, self._shorter = program, shorter
        self._arrived: dict[int, F64] = {}
        self._missing = program.sizes.tolist()
        self._leaving = program.sizes.tolist()
        self._total = program.work_ns.sum(axis=1).tolist()
        self._changes: list[bool] = [*(shorter.work_ns != 0).any(axis=1).tolist()]
        self._less = shorter.work_ns.sum(axis=1).tolist()
        self._began = np.zeros_like(self._now)

    def end(self) -> F64 | None:
        program = self._program
        opens = np.searchsorted(program.member, np.arange(program.members + 1)).tolist()
        place = opens[:-1]
        stops = opens[1:]
        meeting = program.meeting.tolist()
        is_start = program.is_start.tolist()
        waiting: dict[int, list[int]] = {}
        ready = list(range(program.members))
        while ready:
            member = ready.pop()
            while place[member] < stops[member]:
                event = place[member]
                own = meeting[event]
                if own >= 0 and not is_start[event] and self._missing[own]:
                    waiting.setdefault(own, []).append(member)
                    break
                self._work(member, event)
                if own >= 0 and is_start[event]:
                    if self._arrive(member, own):
                        ready += waiting.pop(own, [])
                elif own >= 0:
                    self._leave(member, own, event)
                else:
                    self._end_step(member, event)
                place[member] += 1
        return self._now.max(axis=0) if place == stops else None

    def _work(self, member: int, event: int) -> None:
        now = self._now[member]
        now += self._total[event]
        if self._changes[event]:
            less = self._shorter.work_ns[event]
            now[1] -= self._less[event]
            now[2 + member] -= self._less[event]
            now[-1 - self._kinds : -1] -= less

    def _end_step(self, member: int, event: int) -> None:
        """A step has taken no less than the work of its host."""
        least = self._began[member] + self._program.host_ns[event]
        less = self._shorter.host_ns[event]
        if less:
            least[[1, 2 + member, -1 - self._kinds]] -= less
        np.maximum(self._now[member], least, out=self._now[member])
        self._began[member] = self._now[member]

    def _arrive(self, member: int, own: int) -> bool:
        """Come to a meeting; true if all have come."""
        last = self._arrived.get(own)
        self._arrived[own] = self._now[member].copy() if last is None else np.maximum(last, self._now[member])
        self._missing[own] -= 1
        return not self._missing[own]

    def _leave(self, member: int, own: int, event: int) -> None:
        end = self._arrived[own] + self._program.transfer_ns[event]
        less = self._shorter.transfer_ns[event]
        if less:
            end[[1, 2 + member, -1]] -= less
        np.maximum(self._now[member], end, out=self._now[member])
        self._leaving[own] -= 1
        if not self._leaving[own]:
            del self._arrived[own]


def join_programs(own: Sequence[RankFacts], meetings: Meetings) -> tuple[JointProgram, I64]:
    """The operations of the ranks, and the position to which each event leads; the end of a rank is also a position."""
    parts = []
    offset = 0
    for member, facts in enumerate(own):
        parts.append(_events_of(facts, member, meetings, offset))
        offset += len(facts.collectives.kind)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    rank, work, meeting, is_start, transfer, position, host = columns
    sizes = count_by(meeting[is_start], meetings.count)
    return JointProgram(rank, work, meeting, is_start, transfer, sizes, len(own), host), position


def _events_of(facts: RankFacts, member: int, meetings: Meetings, offset: int) -> tuple[Array, ...]:
    """Columns of `JointProgram` of one rank, and positions."""
    events = _in_order(facts)
    row = np.where(events.is_end_of_step, UNKNOWN, events.row + offset)
    meeting = np.where(row == UNKNOWN, UNKNOWN, take_or(meetings.meeting, row, UNKNOWN))
    kept = np.flatnonzero((meeting != UNKNOWN) | events.is_end_of_step)

    passed = np.cumsum(_work(facts, events, meeting), axis=0)[kept]
    work = np.diff(passed, axis=0, prepend=0.0)
    is_end = ~events.is_start & (meeting != UNKNOWN)
    transfer = np.where(is_end, take_or(meetings.transfer_ns, row, 0), 0)[kept].astype(np.float64)
    is_start = events.is_start[kept]
    position = _led_to(np.where(is_start, take_or(meetings.position, row[kept], UNKNOWN), UNKNOWN), is_start)
    host = np.zeros(len(kept))
    if facts.steps.host_ns:  # else a report of an old version
        host[events.is_end_of_step[kept]] = facts.steps.host_ns
    return np.full(len(kept), member), work, meeting[kept], is_start, transfer, position, host


def _in_order(facts: RankFacts) -> RankEvents:
    """The events of a rank in the order of time."""
    collectives = facts.collectives
    step = np.array([UNKNOWN if step is None else step for step in collectives.step], np.int64)
    start = np.array(collectives.start_ns, np.int64)
    duration = np.array(collectives.duration_ns, np.int64)
    return rank_facts.rank_events(facts.steps, step, start, duration)


def _led_to(position: I64, is_start: Bool) -> I64:
    """For each event the position of the next start, itself included; of those after the last start the rank's end."""
    is_target = is_start.copy()
    is_target[-1:] = True
    targets = np.flatnonzero(is_target)
    following = np.searchsorted(targets, np.arange(len(position)))
    return position[targets][following]


def _work(facts: RankFacts, events: RankEvents, meeting: I64) -> F64:
    """Matrix of events by kinds: own work before each event."""
    collectives, steps = facts.collectives, facts.steps
    length = (events.time_ns - events.since_ns).astype(np.float64)
    starts = events.is_start
    last = events.is_end_of_step
    work = np.zeros((len(length), len(KINDS)))
    for kind, part in ((_COMPUTE, "compute"), (_MEMORY, "memory"), (_LOADER, "loader")):
        work[starts, kind] = np.array(getattr(collectives, f"{part}_before_ns"), np.int64)[events.row[starts]]
        work[last, kind] = np.array(getattr(steps, f"{part}_after_ns"), np.int64)[events.row[last]]
    rest = starts | last
    work[rest, _HOST] = length[rest] - work[rest].sum(axis=1)
    ends = ~rest & (meeting != UNKNOWN)
    work[ends, _COMPUTE] = np.array(collectives.compute_during_ns, np.int64)[events.row[ends]]
    alone = ~rest & (meeting == UNKNOWN)
    work[alone, _OTHER] = length[alone]
    return work


def saved_at_median(program: JointProgram, position: I64, *, exactly: bool = False) -> Shorter:
    """The time saved if all operations take at most the median of their peers.

    Kernels that run during a collective count with those after it, up to the next start: how they are divided depends
    on how long the rank waits.

    Args:
        program: The operations of the ranks.
        position: The position to which each event leads.
        exactly: Whether operations that are faster than the median get longer, so that less than nothing is saved.
    """
    first, segment = group(program.member, np.cumsum(program.is_start) - program.is_start)
    last = np.empty(len(first), np.int64)
    last[segment] = np.arange(len(segment))  # of the rows of a segment, the last one written stays
    work = np.zeros((len(first), len(KINDS)))
    np.add.at(work, segment, program.work_ns)
    less = np.zeros_like(program.work_ns)
    for kind in (_HOST, _LOADER, _COMPUTE, _MEMORY):
        own = work[:, kind]
        excess = _excess(position[first], own, exactly=exactly)
        share = np.divide(excess, own, out=np.zeros_like(own), where=own > 0)
        less[:, kind] = program.work_ns[:, kind] * share[segment]
        less[last, kind] += np.where(own > 0, 0.0, np.minimum(excess, 0.0))  # work that only its peers have
    transfer = np.zeros(len(program.member))
    ends = np.flatnonzero(~program.is_start & (program.meeting != UNKNOWN))
    place = _position_of_ends(program, position)[ends]
    transfer[ends] = _excess(place, program.transfer_ns[ends], exactly=exactly)
    host = np.zeros(len(program.member))
    steps = np.flatnonzero(~program.is_start & (program.meeting == UNKNOWN))
    host[steps] = _excess(matching.nth_of(program.member[steps]), program.host_ns[steps], exactly=exactly)
    return Shorter(less, transfer, host)


def _position_of_ends(program: JointProgram, position: I64) -> I64:
    """For each event the position of its meeting; it is the same on all its ranks."""
    of_meeting = np.full(len(program.sizes) + 1, UNKNOWN)
    of_meeting[program.meeting[program.is_start]] = position[program.is_start]
    return of_meeting[program.meeting]


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
