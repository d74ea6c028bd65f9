"""Where a finding is in the recording: the events that its change claims, by device and thread.

From a change follow a set of events (device events, calls, work of threads, idle time of the busiest device), and from
these the times in the typical steps that a report holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from traceanalyzer.report.model import Finding
from traceanalyzer.report.selection import Selection
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.claim_edits import ON_DEVICE, ON_HOST, Resolver
from traceanalyzer.structure import gaps, recorded_collectives, typical
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_waits import outermost_loads
from traceanalyzer.structure.recording import typical_gaps
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.resources import busiest
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN

SPANS = 200
"""Most times of a finding in a report (own choice: more than a timeline shows)."""
_IDLE = "idle:"


def _none() -> I64:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class _Part:
    """Events of one kind: rows of the device table, or times of threads or of idle time of a device."""

    kind: str
    name: str
    place: I64 = field(default_factory=_none)
    """Device or thread of each time."""
    start: I64 = field(default_factory=_none)
    end: I64 = field(default_factory=_none)


def selections(resolver: Resolver, change: TimeSaved) -> tuple[Selection, ...]:
    """Where a change is, at most `SPANS` times of all."""
    found = [entry for part in _parts(resolver, change) for entry in _entries(resolver.context, part)]
    lengths = sorted((length for entry in found for _, length in entry.spans), reverse=True)
    least = lengths[SPANS - 1] if len(lengths) > SPANS else 0
    left = SPANS - sum(length > least for length in lengths)
    return tuple(_shortened(entry, least, left) if least else entry for entry in found)


def _shortened(entry: Selection, least: int, left: int) -> Selection:
    """Without the times that are shorter than the least, and with some of those that are as long."""
    kept = [span for span in entry.spans if span[1] > least]
    kept += [span for span in entry.spans if span[1] == least][: max(0, left - len(kept))]
    omitted = sum(length for _, length in entry.spans) - sum(length for _, length in kept)
    return replace(entry, spans=tuple(sorted(kept)), omitted=len(entry.spans) - len(kept), omitted_ns=omitted)


def with_shared(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, in which idle time that several claim says so."""
    idle = list(map(_idle_times, findings))
    shared = [any(other is not own and (own & other) for other in idle) for own in idle]
    return [
        replace(finding, where=tuple(replace(entry, shared=entry.kind == "idle") for entry in finding.where))
        if is_shared
        else finding
        for finding, is_shared in zip(findings, shared, strict=True)
    ]


def _idle_times(finding: Finding) -> Intervals:
    spans = [span for entry in finding.where if entry.kind == "idle" for span in entry.spans]
    start, length = np.array(spans, np.int64).reshape(-1, 2).T
    return Intervals.union(start, start + length)


def _entries(context: Context, part: _Part) -> Iterator[Selection]:
    """One entry for each device or thread, in the typical steps; outside of them, if nothing is in them."""
    steps, count = typical.times(context), max(1, typical.count(context))
    on_device = part.kind in ("device", "idle")
    for place, own in members(part.place):
        every = Intervals.union(part.start[own], part.end[own])
        inside = every & steps
        start, end = _in_single_steps(context, inside) if inside else (every.start, every.end)
        yield Selection(
            kind=part.kind,
            name=part.name,
            rank=None,
            device=place if on_device and place != UNKNOWN else None,
            thread=None if on_device else _label(context, place),
            ns_per_step=inside.length / count if inside else None,
            count=len(own),
            spans=tuple(zip(start.tolist(), (end - start).tolist(), strict=True)),
            omitted=0,
            omitted_ns=0,
            outside_steps=not inside,
            ns=None if inside else every.length,
        )


def _in_single_steps(context: Context, times: Intervals) -> tuple[I64, I64]:
    """Start and end of times, cut where a step begins."""
    begins = program_steps(context).typical.start_ns
    cuts = begins[times.within(begins - 1, begins + 1) == 2]
    return np.sort(np.append(times.start, cuts)), np.sort(np.append(times.end, cuts))


def _label(context: Context, thread: int) -> str:
    found = context.trace.threads[thread]
    return f"{found.pid}/{found.tid}"


def _parts(resolver: Resolver, change: TimeSaved) -> Iterator[_Part]:
    """The events that a change claims."""
    context = resolver.context
    if change.resource == "loader":
        yield from _of_loader(context)
    elif change.resource == "communication" or "communication" in change.claims:
        yield from _of_collectives(context)
    elif change.resource == "host":
        yield from _of_host(resolver, change)
    else:
        yield from _of_device(resolver, change)


def _of_loader(context: Context) -> Iterator[_Part]:
    """Waits for the loader, without the time in which a device works."""
    rows, tree = outermost_loads(context), context.host.tree
    for thread, found in members(tree.thread[rows]):
        own = rows[found]
        times = Intervals.union(tree.start_ns[own], tree.end_ns[own]) - gaps.any_busy(context)
        yield _Part("host", "DataLoader", np.full(len(times), thread), times.start, times.end)


def _of_collectives(context: Context) -> Iterator[_Part]:
    rows = np.flatnonzero(recorded_collectives.communication_kernels(context.trace))
    if len(rows):
        yield _on_device(context, "communication", rows)
        return
    host = context.trace.host
    rows = np.flatnonzero(context.cached(recorded_collectives.host_ranges))
    yield _Part("host", "communication", host.thread[rows].astype(np.int64), host.start_ns[rows], host.end_ns[rows])


def _of_device(resolver: Resolver, change: TimeSaved) -> Iterator[_Part]:
    """The claimed device events; all, if none is claimed by name."""
    named = [key for key in sorted(change.claims, key=lambda key: -change.claims[key]) if key.startswith(ON_DEVICE)]
    found = [each.device for each in map(resolver.select, named) if each is not None and len(each.device)]
    rows = distinct(np.concatenate(found)) if found else np.arange(len(resolver.context.trace.device))
    yield _on_device(resolver.context, _said(named[0]) if found else "gpu", rows)


def _of_host(resolver: Resolver, change: TimeSaved) -> Iterator[_Part]:
    """Waits, named work of threads, or idle time of the device by its causes; else all work of the host."""
    calls = resolver.unblocked(change)
    if calls is not None:
        launches = resolver.context.trace.launches
        rows = ascending(distinct(calls))
        name = next((_said(key) for key in change.claims if not key.startswith(_IDLE)), "synchronization")
        thread = launches.thread[rows].astype(np.int64)
        yield _Part("call", name, thread, launches.start_ns[rows], launches.end_ns[rows])
        return
    causes = [key.removeprefix(_IDLE) for key in change.claims if key.startswith(_IDLE)]
    named = change.within or tuple(key for key in change.claims if key.startswith(ON_HOST))
    parts = [(key, each) for key in named if (each := resolver.select(key)) is not None and len(each.thread)]
    if causes and not parts:
        yield from _of_idle(resolver.context, causes)
        return
    if not parts:
        whole = resolver.select("host")
        parts = [] if whole is None else [("host", whole)]
    if parts:
        columns = ([getattr(each, name) for _, each in parts] for name in ("thread", "start_ns", "end_ns"))
        yield _Part("host", _said(parts[0][0]), *map(np.concatenate, columns))


def _of_idle(context: Context, causes: Sequence[str]) -> Iterator[_Part]:
    device, _ = busiest(context, typical.times(context))
    known = [CAUSES.index(cause) for cause in causes if cause in CAUSES]
    if device is not None and known:
        found, counts = typical_gaps(context, device)
        start, end = found.spans(counts, known)
        yield _Part("idle", causes[0], np.full(len(start), device), start, end)


def _on_device(context: Context, name: str, rows: I64) -> _Part:
    device = context.trace.device
    return _Part("device", name, device.device[rows].astype(np.int64), device.start_ns[rows], device.end_ns[rows])


def _said(claim: str) -> str:
    """The name in a claim, without its kind and shapes."""
    return claim.partition(":")[2].partition("|")[0] or claim
