"""How much longer is a step than if no rank were slower than its peers, and because of which rank and what work?

The definition is that of the straggler study of OSDI 2025 ("Understanding Stragglers in Large Model Training Using
What-if Analysis"): the slowdown is the step over the step in which every operation takes the median of its peers. An
operation is what a rank does of one kind between two meetings, or the transfer of a meeting; its peers are what all
ranks do at this position of the step. Here no operation gets longer, so that the slowdown is never below 1, and of two
ranks the faster one counts, because the middle between them would hide half of the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers import rank_work
from traceanalyzer.analyzers.rank_facts import RankFacts
from traceanalyzer.analyzers.rank_work import Events
from traceanalyzer.analyzers.ranks import joint_replay, meetings, typical
from traceanalyzer.analyzers.ranks import table as tables
from traceanalyzer.analyzers.ranks.joint_replay import Program, Shorter
from traceanalyzer.analyzers.ranks.meetings import Meetings
from traceanalyzer.analyzers.sums import count_by, group
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Array, entries

KINDS = ("host", "loader", "compute", "memory", "communication")
_HOST, _LOADER, _COMPUTE, _MEMORY, _OTHER = range(5)
"""Columns of work; the last is of collectives that no other rank has, which stay as recorded."""

MOST_EVENTS = 200_000
"""Events of all ranks that are replayed, whole steps (own choice: some seconds)."""
WORTH_NAMING = 0.01
"""Share of a step from which on a rank is named as late (own choice: a step varies by as much from run to run)."""
_MOST_ERROR = 0.05
"""Above this error the replay is not the run, as of the model of one rank."""

_ONE_RANK = Text("skip-stragglers-one-rank", "one rank has no peers")
_ON_HOST = Text(
    "skip-stragglers-on-host", "the collectives run on the CPU, and the traces do not show what else ran meanwhile"
)
_NO_STEPS = Text("skip-stragglers-no-steps", "the ranks have no step in common")
_OLD = Text("skip-stragglers-old", "a saved report of an older version does not tell what its rank did by itself")
_NOTHING = Text("skip-stragglers-nothing-matched", "no collective was found on several ranks")
_FEW = Text("skip-stragglers-few-ranks", "less than half of the ranks of a process group are here")
_ORDER = Text("skip-stragglers-order", "the ranks come to their collectives in orders that contradict each other")
_ERROR = Text(
    "skip-stragglers-error",
    "the replay of the run as recorded is wrong by {share:share}, more than {most:share}",
)


class RankSlowdown(msgspec.Struct, frozen=True):
    """The part of one rank in the slowdown."""

    rank: int
    """Number of the rank."""
    slowdown: float
    """Step over the step in which only the operations of this rank take at most the median of their peers."""


class KindSlowdown(msgspec.Struct, frozen=True):
    """The part of one kind of operations in the slowdown."""

    kind: str
    """Kind of operations: `host` (the devices do nothing and nothing waits for the loader), `loader`, `compute`
    (kernels), `memory` (only copies and fills) or `communication` (transfers, without waiting for other ranks)."""
    slowdown: float
    """Step over the step in which only operations of this kind take at most the median of their peers."""


class Stragglers(msgspec.Struct, frozen=True):
    """Slowdown of the run by ranks that are slower than their peers, from a replay of all ranks together."""

    slowdown: float
    """Step over the step in which every operation takes at most the median of its peers; at least 1."""
    late_rank: int | None
    """The rank whose operations make the step longest; null if none makes it at least 1 % longer."""
    late_ns_per_step: float | None
    """Time in ns by which a step would be shorter if the operations of this rank took at most the median of their
    peers; null without such a rank."""
    by_rank: tuple[RankSlowdown, ...]
    """Each rank alone, in ascending order."""
    by_kind: tuple[KindSlowdown, ...]
    """Each kind of operations alone, of all ranks."""
    step_ns: float = 0.0
    """Mean duration of a step in the replay of the run as recorded, in ns."""
    steps: int = 0
    """Number of steps that were replayed."""
    error_share: float = 0.0
    """Difference of that duration and the recorded one, as a share of the recorded one."""


def analyze(facts: Mapping[int, RankFacts], world_size: int | None = None) -> Stragglers | Message:
    """Replay the ranks together.

    Args:
        facts: By rank.
        world_size: Number of ranks of the run, if it is known.

    Returns:
        The slowdown, or why it cannot be told.
    """
    ranks = sorted(facts)
    own = _in_common([facts[rank] for rank in ranks])
    reason = _missing(own)
    if reason is not None:
        return reason
    table = tables.build(own)
    found = meetings.find(table)
    if not found.count:
        return _NOTHING()
    if meetings.has_few(table, world_size):
        return _FEW()
    program, position = _program(own, found)
    times = joint_replay.replay(program, _shorter(program, position))
    if times is None:
        return _ORDER()
    steps = len(own[0].steps.name)
    recorded = sum(sum(one.steps.duration_ns) for one in own) / len(own)
    error = abs(float(times[0]) - recorded) / recorded if recorded else 0.0
    if error > _MOST_ERROR:
        return _ERROR(share=error, most=_MOST_ERROR)
    return _result(ranks, times, steps, error)


def _result(ranks: Sequence[int], times: F64, steps: int, error: float) -> Stragglers:
    step = float(times[0])
    slowdown = np.divide(step, times, out=np.ones_like(times), where=times > 0).tolist()
    alone = slowdown[2 : 2 + len(ranks)]
    worst = max(range(len(ranks)), key=lambda place: (alone[place], -place))
    late = step - float(times[2 + worst])
    is_late = late >= WORTH_NAMING * step > 0
    return Stragglers(
        slowdown=slowdown[1],
        late_rank=ranks[worst] if is_late else None,
        late_ns_per_step=late / steps if is_late else None,
        by_rank=tuple(map(RankSlowdown, ranks, alone)),
        by_kind=tuple(map(KindSlowdown, KINDS, (*slowdown[-6:-2], slowdown[-1]))),
        step_ns=step / steps,
        steps=steps,
        error_share=error,
    )


def _in_common(every: Sequence[RankFacts]) -> list[RankFacts]:
    """The ranks with only the steps that all of them have, as many of the first as are replayed."""
    if not every:
        return []
    common = frozenset.intersection(*(frozenset(_whole_steps(facts)) for facts in every))
    names = [name for name in every[0].steps.name if name in common]
    place = {name: number for number, name in enumerate(names)}
    events = np.zeros(len(names), np.int64)
    for facts in every:
        own = [place.get(name, UNKNOWN) for name in facts.steps.name]
        rows = [own[step] for step in facts.collectives.step if step is not None and own[step] != UNKNOWN]
        events += 2 * count_by(np.array(rows, np.int64), len(names))
    kept = max(1, int(np.searchsorted(np.cumsum(events), MOST_EVENTS, side="right")))
    return [typical.only(facts, frozenset(names[:kept])) for facts in every]


def _whole_steps(facts: RankFacts) -> tuple[str, ...]:
    """The steps whose collectives are all listed."""
    if not facts.left_out:
        return facts.steps.name
    listed = [step for step in facts.collectives.step if step is not None]
    return facts.steps.name[: max(listed, default=0)]


def _missing(own: Sequence[RankFacts]) -> Message | None:
    if len(own) < 2:
        return _ONE_RANK()
    if not own[0].steps.name:
        return _NO_STEPS()
    if any(len(one.steps.compute_after_ns) < len(one.steps.name) for one in own):
        return _OLD()
    if any(one.is_on_host for one in own):
        return _ON_HOST()
    return None


def _program(own: Sequence[RankFacts], found: Meetings) -> tuple[Program, I64]:
    """What the ranks do, and the position to which each event leads; the end of a rank has a position of its own."""
    parts, offset = [], 0
    for member, facts in enumerate(own):
        parts.append(_events_of(facts, member, found, offset))
        offset += len(facts.collectives.kind)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    member, work, meeting, is_start, transfer, position = columns
    sizes = count_by(meeting[is_start], found.count)
    return Program(member, work, meeting, is_start, transfer, sizes, len(own)), position


def _events_of(facts: RankFacts, member: int, found: Meetings, offset: int) -> tuple[Array, ...]:
    """Columns of `Program` of one rank, and positions."""
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


def _work(facts: RankFacts, events: Events, meeting: I64) -> F64:
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


def _shorter(program: Program, position: I64) -> Shorter:
    """What goes away if all operations take at most the median of their peers.

    Kernels that run during a collective count with those after it, up to the next start: how they are divided depends
    on how long the rank waits.
    """
    first, segment = group(program.member, _segments(program))
    work = np.zeros((len(first), len(KINDS)))
    np.add.at(work, segment, program.work_ns)
    less = np.zeros_like(program.work_ns)
    for kind in (_HOST, _LOADER, _COMPUTE, _MEMORY):
        less[:, kind] = program.work_ns[:, kind] * _excess(position[first], work[:, kind])[segment]
    transfer = np.zeros(len(program.member))
    ends = np.flatnonzero(~program.is_start & (program.meeting != UNKNOWN))
    place = _position_of_ends(program, position)[ends]
    transfer[ends] = program.transfer_ns[ends] * _excess(place, program.transfer_ns[ends])
    return Shorter(less, transfer)


def _segments(program: Program) -> I64:
    """Number of starts before each event."""
    found: I64 = np.cumsum(program.is_start) - program.is_start
    return found


def _position_of_ends(program: Program, position: I64) -> I64:
    """For each event the position of its meeting; it is the same on all its ranks."""
    of_meeting = np.full(len(program.sizes) + 1, UNKNOWN)
    of_meeting[program.meeting[program.is_start]] = position[program.is_start]
    found: I64 = of_meeting[program.meeting]
    return found


def _excess(position: I64, values: F64) -> F64:
    """For each value the share of it that is above the median of its position; of two values above the lower one."""
    if not len(values):
        return np.zeros(0)
    order = np.lexsort((values, position))
    _, code = group(position)
    counts = count_by(code, int(code.max()) + 1)
    opens = np.cumsum(counts) - counts
    ordered = values[order]
    middle = (ordered[opens + (counts - 1) // 2] + ordered[opens + counts // 2]) / 2
    usual = np.where(counts == 2, ordered[opens], middle)[code]
    return np.divide(np.maximum(0.0, values - usual), values, out=np.zeros_like(values), where=values > 0)
