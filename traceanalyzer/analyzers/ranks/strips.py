"""What does each rank do at each moment of a typical step, on one clock?

The ranks of one real step below each other, in a resolution for pictures: own work in one lane, collectives in another.
Between two events of collectives it is known how long a rank works, not when: there its work is drawn first.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analyzers.ranks.model import RankStrip, StripPart, TypicalStrips
from traceanalyzer.analyzers.ranks.rank_facts import rank_events
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
    own, steps = facts.collectives, facts.steps
    rows = np.flatnonzero(run.table.member == position)
    waits = np.zeros(len(run.table), np.int64)
    waits[run.matched.rows] = run.waits.wait
    at = np.array([UNKNOWN if where is None else where for where in own.step], np.int64)
    start, dur = np.array(own.start_ns, np.int64), np.array(own.duration_ns, np.int64)
    events = rank_events(steps, at, start, dur)
    here = events.step == step
    row, is_start, is_end = events.row[here], events.is_start[here], events.is_end_of_step[here]
    since, time = events.since_ns[here] + shift, events.time_ns[here] + shift
    spans: dict[str, Intervals] = {}
    for part in WORK:
        before, after = (
            np.array(getattr(where, f"{part}_{when}_ns"), np.int64)
            for where, when in ((own, "before"), (steps, "after"))
        )
        amount = np.zeros(len(row), np.int64)
        amount[is_start], amount[is_end] = before[row[is_start]], after[row[is_end]]
        if part == "compute":
            during = ~is_start & ~is_end
            amount[during] = np.array(own.compute_during_ns, np.int64)[row[during]]
        end = np.minimum(since + amount, time)
        spans[part] = Intervals.union(since[end > since], end[end > since])
        since = end
    inside = at == step
    opens, closes = start[inside] + shift, (start + dur)[inside] + shift
    split = opens + waits[rows][inside]
    running = Intervals.union(opens, closes)
    begin = steps.start_ns[step] + shift
    whole = Intervals.union(np.array([begin]), np.array([begin + steps.duration_ns[step]]))
    busy = running
    for part in WORK:
        busy = busy | spans[part]
    spans[_NOTHING] = whole - busy
    lanes = (spans, {"wait": Intervals.union(opens, split), "transfer": Intervals.union(split, closes)})
    return RankStrip(run.numbers[position], *(tuple(_parts(lane, bounds)) for lane in lanes))


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
