"""What was recorded, and what lies outside of the typical steps: when, for how long, and what host and device do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from traceanalyzer.structure import gap_causes, gaps, host_waits, recording, typical
from traceanalyzer.structure.analysis import STEPS, Analysis
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.events import Occurrences, event_set, outside_of_steps
from traceanalyzer.structure.owners import Owner, index_of
from traceanalyzer.structure.owners.critical import critical_in
from traceanalyzer.structure.recording import HostPart, Outside, Recording
from traceanalyzer.structure.recording.left_out import ALLOCATION, LOADER, LOADING, UNKNOWN
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, take_or

NO_STEP = "no-step"
MOST = 50
"""Most times that are listed (own choice: more than people read)."""
_WORTH = 0.01
"""Least length of a time that is listed, as a share of a typical step."""
_MOSTLY = 0.5
_LEADS = 0.25
"""Share of a time from which on its largest owner says what it is (own choice: a quarter)."""
_CAUSES = (
    (LOADING, gap_causes.COMPILATION),
    (ALLOCATION, gap_causes.ALLOCATION),
    (LOADER, gap_causes.DATALOADER),
)


@cached
def recorded(context: Context) -> Recording:
    """What was recorded, with what lies outside of the typical steps."""
    found = recording.analyze(context)
    if found.typical is None:
        return found
    apart = Intervals.union(np.array([0]), np.array([context.trace.info.span_ns])) - typical.times(context)
    listed = [part for part in _parts(context, apart) if part[2] >= _WORTH * found.typical.parts.duration_ns]
    longest = sorted(listed, key=lambda part: -part[2])[:MOST]
    kept = sorted(longest, key=lambda part: part[1])
    return replace(
        found,
        outside=_described(context, kept),
        outside_ns=apart.length,
        outside_omitted=len(listed) - len(kept),
    )


@outside_of_steps
@event_set
def work_outside(context: Context, owner: HostPart) -> Iterator[Occurrences]:
    """When an owner, or others with its role, works outside of the typical steps and no device does.

    Args:
        context: The trace.
        owner: The owner; those of its role have its purpose, too.
    """
    apart = Intervals.union(np.array([0]), np.array([context.trace.info.span_ns])) - typical.times(context)
    index = index_of(context, critical_in(context, apart, 1))
    tree = index.nested.tree
    wanted = np.array([_is_same(each, owner) for each in index.owners], np.bool_)
    rows = np.flatnonzero(take_or(wanted, index.owner, missing=False) & (tree.thread == index.critical.main))
    times = (Intervals.union(tree.start_ns[rows], tree.end_ns[rows]) & apart) - gaps.any_busy(context)
    thread = np.full(len(times), index.critical.main, np.int64)
    yield Occurrences("host", owner.name, thread, times.start, times.end)


def _is_same(own: Owner, wanted: HostPart) -> bool:
    """Whether owners have the same purpose, or are the same where no name shows it."""
    if wanted.role is not None:
        return own.role == wanted.role
    return (own.kind, own.name, own.file) == (wanted.kind, wanted.name, wanted.file)


_Part = tuple[str, int, int, str]
"""Kind, start, duration and reason."""


def _parts(context: Context, apart: Intervals) -> Iterator[_Part]:
    """The times outside of the typical steps, by the steps that do not count and what no step contains."""
    steps = program_steps(context)
    every = Intervals.union(steps.start_ns, steps.end_ns)
    reasons = [reason for reason, counts in zip(steps.reasons, steps.is_typical, strict=True) if not counts]
    yield from _left_out(apart, steps.start_ns[~steps.is_typical], steps.end_ns[~steps.is_typical], reasons)
    rest = apart - every
    causes = _causes(context, rest)
    for start, end, cause in zip(rest.start.tolist(), rest.end.tolist(), causes, strict=True):
        kind = "before" if end <= every.start[0] else "after" if start >= every.end[-1] else "between"
        yield kind, start, end - start, cause


def _left_out(apart: Intervals, start: I64, end: I64, reasons: list[str | None]) -> Iterator[_Part]:
    """Times of steps that do not count; those that follow one another for the same known reason are one."""
    for reason in dict.fromkeys(reasons):
        own = np.array([each == reason for each in reasons], np.bool_)
        times = Intervals.union(start[own], end[own]) & apart
        begins, ends = times.start, times.end
        if reason == UNKNOWN:  # what one of them does says nothing about the next
            turns = np.setdiff1d(np.intersect1d(start[own], end[own]), np.append(begins, ends))
            begins, ends = np.union1d(begins, turns), np.union1d(ends, turns)
        for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
            yield "left-out-step", first, last - first, reason or NO_STEP


def _causes(context: Context, times: Intervals) -> list[str]:
    """What takes half of each time by itself, if it is known by name; else that no step is marked there."""
    timeline = gap_causes.explicit(context)
    within = timeline.within(times.start, times.end, [label for _, label in _CAUSES])
    starting = host_waits.starting_workers(context).within(times.start, times.end)
    within = [own + starting * (cause == LOADER) for (cause, _), own in zip(_CAUSES, within, strict=True)]
    length = times.end - times.start
    found = [NO_STEP] * len(times)
    for (cause, _), own in zip(_CAUSES, within, strict=True):
        for row in np.flatnonzero(own >= _MOSTLY * length).tolist():
            found[row] = cause
    return found


def _described(context: Context, parts: list[_Part]) -> tuple[Outside, ...]:
    start, length = np.array([part[1:3] for part in parts], np.int64).reshape(-1, 2).T
    busy = _device_times(context, start, start + length)
    owners = _owners(context, start, start + length)
    described = []
    for (kind, first, duration, reason), device_ns, (owner, host_ns) in zip(parts, busy, owners, strict=True):
        described.append(Outside(kind, first, duration, device_ns, owner, reason, host_ns))
    return tuple(described)


def _device_times(context: Context, start: I64, end: I64) -> list[int | None]:
    """How long the busiest device works in each of some times; None where some of its work was not recorded."""
    device = typical.device(context)
    if device is None:
        return [None] * len(start)
    works = gaps.busy(context, device).within(start, end).tolist()
    missing = unrecorded_work(context).get(device, Intervals.none()).within(start, end).tolist()
    return [None if unrecorded else time for time, unrecorded in zip(works, missing, strict=True)]


def _owners(context: Context, start: I64, end: I64) -> list[tuple[HostPart | None, int]]:
    """Who owns most of the critical thread's time in each of some times, or None, and the owned time."""
    if not len(start):
        return []
    index = index_of(context, critical_in(context, Intervals.union(start, end), 1))
    timeline = index.timeline
    found: list[tuple[HostPart | None, int]] = []
    for first, last in zip(start.tolist(), end.tolist(), strict=True):
        inside = slice(*np.searchsorted(timeline.end_ns, (first, last), side="right").tolist())
        rows = np.arange(inside.start, min(inside.stop + 1, len(timeline.owner)))
        time = np.minimum(timeline.end_ns[rows], last) - np.maximum(timeline.start_ns[rows], first)
        sums = sum_by(timeline.owner[rows] + 1, np.maximum(time, 0), len(index.owners) + 1)
        owned = int(sums[1:].sum())
        most = int(sums[1:].argmax()) if owned else 0
        if not owned or sums[most + 1] < _LEADS * (last - first):
            found.append((None, owned))
            continue
        own = index.owners[most]
        found.append((HostPart(own.kind, own.name, own.role, own.file, own.line, int(sums[most + 1])), owned))
    return found


ANALYSES = (Analysis(10, "recording", Recording, recorded, needs=(STEPS,)),)
