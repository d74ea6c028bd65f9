"""What does each rank do at each moment of a typical step, on one clock?

The ranks of one real step below each other, in a resolution for pictures: own work in one lane, collectives in another.
Between two events of collectives it is known how long a rank works, not when: there its work is drawn first.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analyzers.ranks.model import RankStrip, StripPart, TypicalStrips
from traceanalyzer.analyzers.ranks.rank_facts import RankCollectives, RankFacts, rank_events
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
    shown = _shown(run)
    own = [run.members[position].facts.steps.name.index(name) for position in shown]
    shifts = [_shift(run, position) for position in shown]
    steps = [run.members[position].facts.steps for position in shown]
    starts = [each.start_ns[step] + shift for each, step, shift in zip(steps, own, shifts, strict=True)]
    ends = [start + each.duration_ns[step] for start, each, step in zip(starts, steps, own, strict=True)]
    first, length = min(starts), max(ends) - min(starts)
    bounds = np.linspace(0, length, _COLUMNS + 1).round().astype(np.int64)
    ranks = [
        _strip(run, position, step, shift - first, bounds)
        for position, step, shift in zip(shown, own, shifts, strict=True)
    ]
    return TypicalStrips(name, length, tuple(ranks), len(run.members) - len(shown))


def _step(run: RankRun) -> int | None:
    """The step with matched collectives that all ranks have and whose mean duration is closest to the mean."""
    if any(member.facts.is_on_host for member in run.members):
        return None
    if any(m.facts.collectives.kind and not m.facts.collectives.compute_before_ns for m in run.members):
        return None
    means: dict[int, float] = {}
    for number in sorted(counted_steps(run)):
        name = run.table.steps[number]
        own = [dict(zip(m.facts.steps.name, m.facts.steps.duration_ns, strict=True)).get(name) for m in run.members]
        durations = [duration for duration in own if duration is not None]
        if len(durations) == len(own):
            means[number] = float(np.mean(durations))
    if not means:
        return None
    usual = float(np.mean(list(means.values())))
    return min(means, key=lambda number: (abs(means[number] - usual), number))


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


def _strip(run: RankRun, position: int, step: int, shift: int, bounds: I64) -> RankStrip:
    """The step of a rank; `shift` turns its times into those of the bounds."""
    facts = run.members[position].facts
    work = _work(facts, step, shift)
    running, communication = _communication(run, position, step, shift)
    begin = facts.steps.start_ns[step] + shift
    whole = Intervals.union(np.array([begin]), np.array([begin + facts.steps.duration_ns[step]]))
    busy = running
    for spans in work.values():
        busy = busy | spans
    lanes = (work | {_NOTHING: whole - busy}, communication)
    return RankStrip(run.numbers[position], *(tuple(_parts(lane, bounds)) for lane in lanes))


def _work(facts: RankFacts, step: int, shift: int) -> dict[str, Intervals]:
    """When the rank works on each part of `WORK`.

    Between two events of collectives only the amounts are known: they are laid one after another, from the first event.
    """
    collectives, steps = facts.collectives, facts.steps
    start, duration = np.array(collectives.start_ns, np.int64), np.array(collectives.duration_ns, np.int64)
    events = rank_events(steps, _steps_of(collectives), start, duration)
    in_step = events.step == step
    # Per event: the row of its collective or step, the time of the event before it, and its own.
    row, is_start, is_end = events.row[in_step], events.is_start[in_step], events.is_end_of_step[in_step]
    since, time = events.since_ns[in_step] + shift, events.time_ns[in_step] + shift
    work: dict[str, Intervals] = {}
    for part in WORK:
        amount = np.zeros(len(row), np.int64)
        amount[is_start] = np.array(getattr(collectives, f"{part}_before_ns"), np.int64)[row[is_start]]
        amount[is_end] = np.array(getattr(steps, f"{part}_after_ns"), np.int64)[row[is_end]]
        if part == "compute":
            during = ~is_start & ~is_end
            amount[during] = np.array(collectives.compute_during_ns, np.int64)[row[during]]
        end = np.minimum(since + amount, time)
        work[part] = Intervals.union(since[end > since], end[end > since])
        since = end
    return work


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
    return [
        StripPart(kinds[most[a]], int(bounds[a]), int(bounds[b] - bounds[a]))
        for a, b in zip(changes.tolist(), [*changes[1:].tolist(), len(most)], strict=True)
        if most[a] != UNKNOWN
    ]
