"""What does each rank do at each moment of a typical step, on one clock?

The ranks of one real step below each other, in a resolution for pictures: own work in one lane, collectives in another.
Between two events of collectives it is known how long a rank works, not when: there its work is drawn first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analyzers.ranks.model import RankStrip, StripPart, TypicalStrips
from traceanalyzer.analyzers.ranks.rank_facts import RankCollectives, RankEvents, RankFacts, rank_events
from traceanalyzer.analyzers.ranks.rows import RankRun, counted_steps
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN

MOST_RANKS = 16
"""Ranks that are shown (own choice: two machines); the others are counted."""
_COLUMNS = 600
"""Moments of a step that are distinguished (own choice: a picture has not many more pixels)."""
WORK = ("compute", "memory", "loader")
_NOTHING = "idle"


def strips(run: RankRun) -> TypicalStrips | None:
    """The strips of a typical step; None where there is none, where collectives run on the CPU, and of old reports."""
    chosen = _step(run)
    if chosen is None:
        return None
    name = run.table.steps[chosen]
    steps = [_RankStep.of(run, position, name) for position in _shown(run)]
    first = min(step.start_ns for step in steps)
    length = max(step.end_ns for step in steps) - first
    bounds = np.linspace(0, length, _COLUMNS + 1).round().astype(np.int64)
    ranks = tuple(_strip(run, step, first, bounds) for step in steps)
    return TypicalStrips(name, length, ranks, len(run.members) - len(steps))


class _RankStep(NamedTuple):
    """The shown step of a rank."""

    position: int
    """Position of the rank."""
    step: int
    """Position of the step among those of the rank."""
    shift: int
    """What turns times of the rank into times of the common clock."""
    start_ns: int
    """Start by the common clock."""
    end_ns: int

    @classmethod
    def of(cls, run: RankRun, position: int, name: str) -> _RankStep:
        """The step of a rank by its name."""
        steps = run.members[position].facts.steps
        step = steps.name.index(name)
        shift = _shift(run, position)
        start = steps.start_ns[step] + shift
        return cls(position, step, shift, start, start + steps.duration_ns[step])


def _step(run: RankRun) -> int | None:
    """The step with matched collectives that all ranks have and whose mean duration is closest to the mean."""
    if any(member.facts.is_on_host for member in run.members):
        return None
    if any(m.facts.collectives.kind and not m.facts.collectives.compute_before_ns for m in run.members):
        return None
    all_durations = [_durations(member.facts) for member in run.members]
    means: dict[int, float] = {}
    for number in sorted(counted_steps(run)):
        name = run.table.steps[number]
        durations = [by_name[name] for by_name in all_durations if name in by_name]
        if len(durations) == len(run.members):
            means[number] = float(np.mean(durations))
    if not means:
        return None
    usual = float(np.mean(list(means.values())))
    return min(means, key=lambda number: (abs(means[number] - usual), number))


def _durations(facts: RankFacts) -> dict[str, int]:
    """Durations of the steps of a rank by their names."""
    return dict(zip(facts.steps.name, facts.steps.duration_ns, strict=True))


def _shown(run: RankRun) -> list[int]:
    """Positions of the ranks to show: those that others wait for longest, then the lowest."""
    caused = run.blame.by_step.sum(axis=0)
    order = sorted(range(len(run.members)), key=lambda position: (-float(caused[position]), position))
    return sorted(order[:MOST_RANKS])


def _shift(run: RankRun, position: int) -> int:
    """What turns times of a rank into times of the common clock."""
    origins = [member.facts.clock_ns or 0 for member in run.members] if run.table.has_clocks else None
    offset = run.clocks.get(position)
    return (origins[position] - min(origins) if origins else 0) - (offset.ns if offset else 0)


def _strip(run: RankRun, own: _RankStep, first: int, bounds: I64) -> RankStrip:
    """The step of a rank; `bounds` are the moments that are distinguished, from the time `first` on."""
    shift = own.shift - first
    work = _work(run.members[own.position].facts, own.step, shift)
    running, communication = _communication(run, own.position, own.step, shift)
    whole = Intervals.union(np.array([own.start_ns - first]), np.array([own.end_ns - first]))
    busy = running
    for spans in work.values():
        busy = busy | spans
    idle = {_NOTHING: whole - busy}
    return RankStrip(
        run.numbers[own.position], tuple(_parts(work | idle, bounds)), tuple(_parts(communication, bounds))
    )


def _work(facts: RankFacts, step: int, shift: int) -> dict[str, Intervals]:
    """When the rank works on each part of `WORK`.

    Between two events of collectives only the amounts are known: they are laid one after another, from the first event.
    """
    collectives = facts.collectives
    start = np.array(collectives.start_ns, np.int64)
    duration = np.array(collectives.duration_ns, np.int64)
    every = rank_events(facts.steps, _steps_of(collectives), start, duration)
    events = every.take(every.step == step)
    begin = events.since_ns + shift  # the event before
    time = events.time_ns + shift
    work: dict[str, Intervals] = {}
    for part in WORK:
        end = np.minimum(begin + _amounts(facts, events, part), time)
        works = end > begin
        work[part] = Intervals.union(begin[works], end[works])
        begin = end
    return work


def _amounts(facts: RankFacts, events: RankEvents, part: str) -> I64:
    """How long the rank works on a part before each event: the start or end of a collective, or the end of the step."""
    collectives = facts.collectives
    is_start = events.is_start
    is_end_of_step = events.is_end_of_step
    amount = np.zeros(len(events.row), np.int64)
    amount[is_start] = np.array(getattr(collectives, f"{part}_before_ns"), np.int64)[events.row[is_start]]
    after = np.array(getattr(facts.steps, f"{part}_after_ns"), np.int64)
    amount[is_end_of_step] = after[events.row[is_end_of_step]]
    if part == "compute":
        during = ~is_start & ~is_end_of_step
        amount[during] = np.array(collectives.compute_during_ns, np.int64)[events.row[during]]
    return amount


def _communication(run: RankRun, position: int, step: int, shift: int) -> tuple[Intervals, dict[str, Intervals]]:
    """When the rank is in collectives of a step, and their parts: it waits for others, then data are transferred."""
    collectives = run.members[position].facts.collectives
    waits = np.zeros(len(run.table), np.int64)
    waits[run.matched.rows] = run.waits.wait
    in_step = _steps_of(collectives) == step
    opens = np.array(collectives.start_ns, np.int64)[in_step] + shift
    closes = opens + np.array(collectives.duration_ns, np.int64)[in_step]
    split = opens + waits[run.table.member == position][in_step]
    parts = {"wait": Intervals.union(opens, split), "transfer": Intervals.union(split, closes)}
    return Intervals.union(opens, closes), parts


def _steps_of(collectives: RankCollectives) -> I64:
    """The step of each collective, or that it is unknown."""
    return np.array([UNKNOWN if step is None else step for step in collectives.step], np.int64)


def _parts(lane: dict[str, Intervals], bounds: I64) -> list[StripPart]:
    """What takes most of each moment of a lane, as parts; nothing where less than half of it is taken."""
    kinds = tuple(lane)
    times = np.array([lane[kind].within(bounds[:-1], bounds[1:]) for kind in kinds])
    most = np.where(2 * times.sum(axis=0) >= np.diff(bounds), times.argmax(axis=0), UNKNOWN)
    changes = np.flatnonzero(np.diff(most, prepend=UNKNOWN - 1))
    parts = []
    for first, behind in pairwise([*changes.tolist(), len(most)]):
        if most[first] != UNKNOWN:
            parts.append(StripPart(kinds[most[first]], int(bounds[first]), int(bounds[behind] - bounds[first])))
    return parts
