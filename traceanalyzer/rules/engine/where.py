"""Where a finding is in the recording: the events that its change claims, by device and thread.

From a change follow a set of events (device events, calls, work of threads, idle time of the busiest device), and from
these the times in the typical steps that a report holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import fsum
from operator import or_

import numpy as np
from msgspec.structs import replace

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Saving
from traceanalyzer.report.selection import CallingLine, Once, Selection
from traceanalyzer.rules.engine.change import (
    ON_DEVICE,
    CollectivesShorter,
    HostTime,
    LoaderShorter,
    StepChange,
    WaitsGone,
)
from traceanalyzer.rules.engine.claim_edits import Resolver
from traceanalyzer.structure import gaps, host_activity, host_waits, recorded_collectives, typical
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import COMMUNICATION, WAITS, Occurrences, Of, Population
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.graph_events import graph_labels, graph_lines
from traceanalyzer.structure.host_waits import outermost_loads
from traceanalyzer.structure.line_times import line_times
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recording import typical_gaps
from traceanalyzer.structure.recording.program_steps import is_marked, program_steps
from traceanalyzer.structure.sums import group, members, sum_by
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN

LINES = 3
"""Most lines of a place."""
SPANS = 200
"""Most times of a finding in a report (own choice: more than a timeline shows)."""
_BEYOND = 1.1
"""A saving of so many times the time that its sentence says needs a reason (own choice)."""
_WITH_REASON = Text(
    "finding-summary-and-reason",
    "{summary} {reason}",
    note="summary is a sentence about events of the GPU, such as copies, and what they take per step",
)
_LATER = Text(
    "finding-later-launches-2",
    "The CPU is held up by them, too: without them it launches what follows {later:ns} earlier.",
    note="them: events of the GPU, such as copies",
)


def selections(resolver: Resolver, change: StepChange) -> tuple[Selection, ...]:
    """Where a change is, at most `SPANS` times of all."""
    found = [entry for part in _parts(resolver, change) for entry in _entries(resolver.context, part)]
    names = list(dict.fromkeys(entry.name for entry, _, _ in found))
    found.sort(key=lambda each: (names.index(each[0].name), *_place(each[0])))
    lengths = np.concatenate([length for _, _, length in found]) if found else np.empty(0, np.int64)
    least = int(np.partition(lengths, -SPANS)[-SPANS]) if len(lengths) > SPANS else 0
    left = SPANS - int((lengths > least).sum())
    return tuple(_with_times(entry, start, length, least, left) for entry, start, length in found)


def _place(entry: Selection) -> tuple[int, str]:
    """Order of devices and threads that does not depend on the order of events in the file."""
    return UNKNOWN if entry.device is None else entry.device, entry.thread or ""


def _with_times(entry: Selection, start: I64, length: I64, least: int, left: int) -> Selection:
    """With its times: without those that are shorter than the least, and with some of those that are as long."""
    rows = np.arange(len(length))
    if least:
        longer = np.flatnonzero(length > least)
        equal = np.flatnonzero(length == least)
        rows = ascending(np.concatenate((longer, equal[: max(0, left - len(longer))])))
    return replace(
        entry,
        spans=tuple(zip(start[rows].tolist(), length[rows].tolist(), strict=True)),
        omitted=len(length) - len(rows),
        omitted_ns=int(length.sum()) - int(length[rows].sum()),
    )


def ns_per_step(found: Sequence[Selection]) -> float | None:
    """Time per step of the events of a finding in ns: of those of the first name; None if none is in a typical step.

    Threads take turns for a step, but devices work at the same time: of several, the one with most time counts.
    """
    own = [each for each in found if each.name == found[0].name and each.ns_per_step is not None]
    together = max if all(each.device is not None for each in own) else fsum
    return together([each.ns_per_step or 0.0 for each in own]) if own else None


def explained(summary: Message, saving: Saving | None, found: Sequence[Selection]) -> Message:
    """The sentence of a finding; with what else is saved where events of a device save more than they take."""
    taken = fsum(each.ns_per_step or 0.0 for each in found if each.kind == "device")
    if saving is None or saving.resource != "gpu" or saving.point_ns_per_step is None or not taken:
        return summary
    later = saving.point_ns_per_step - taken
    if later <= (_BEYOND - 1) * taken:
        return summary
    said = _WITH_REASON(summary=summary, reason=_LATER(later=later), later=later)
    return replace(said, params={**summary.params, **said.params})  # programs read the figures of the first sentence


def once(context: Context, change: StepChange, found: Sequence[Selection]) -> Once | None:
    """What a change saves once, if all that it changes lies outside of the typical steps; else None.

    Of what comes now and then, a mean over the recorded steps is saved, unless all of it begins between steps. That is
    at most the time itself, and of host work at most the idle time of the busiest device outside of the steps: most
    likely the idle time during this work.
    """
    program = program_steps(context)
    # a loop over batches has no step around its epochs, as marks of the profiler have
    every = program.every
    within = every if is_marked(context) else program.typical
    if not found or not all(entry.outside_steps for entry in found):
        return None
    if change.is_spread and any(within.contain(_bounds(entry)[0]).any() for entry in found):
        return None
    comes_back = change.is_spread or (change.place is not None and change.place.population is Population.OUTSIDE)
    during, most = _worth_at_most(context, found)
    steps = len(every) if change.is_spread else typical.count(context)
    removed = [ns * max(1, steps) for ns in change.removed]
    low, high = min(during, *removed), min(most, max(removed))
    point = min(max(low, min(during, fsum(removed) / 2)), high)
    span = context.trace.info.span_ns
    return Once((low, high), point, point / span, comes_back) if high and span else None


def _worth_at_most(context: Context, found: Sequence[Selection]) -> tuple[float, float]:
    """What no more than is saved outside of the steps in ns: most likely, and at most."""
    most = float(sum(entry.ns or 0 for entry in found))
    device = typical.device(context)
    if device is None or found[0].kind not in ("host", "call"):
        return most, most
    whole = Intervals.union(np.array([0]), np.array([context.trace.info.span_ns]))
    idle = whole - typical.times(context) - gaps.busy(context, device)
    most = min(most, idle.length)
    return min(most, fsum(idle.within(*_bounds(entry)).sum() for entry in found)), most


def _bounds(entry: Selection) -> tuple[I64, I64]:
    """Starts and ends of the times of an entry."""
    start, length = np.array(entry.spans, np.int64).reshape(-1, 2).T
    return start, start + length


def with_shared(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, in which idle time that several claim says so."""
    idle = list(map(_idle_times, findings))
    said = []
    for finding, own in zip(findings, idle, strict=True):
        if any(other is not own and (own & other) for other in idle):
            places = tuple(replace(entry, shared=entry.kind == "idle") for entry in finding.where)
            said.append(replace(finding, where=places))
        else:
            said.append(finding)
    return said


def _idle_times(finding: Finding) -> Intervals:
    every = [Intervals.union(*_bounds(entry)) for entry in finding.where if entry.kind == "idle"]
    return reduce(or_, every, Intervals.none())


def _entries(context: Context, part: Occurrences) -> Iterator[tuple[Selection, I64, I64]]:
    """One entry for each device or thread, in the typical steps; outside of them, if nothing is in them.

    Returns:
        The entries without their times; start and duration of each of these, in the order of time.
    """
    steps = typical.times(context)
    count = max(1, typical.count(context))
    on_device = part.kind in ("device", "idle")
    for place, own in members(part.place):
        every = Intervals.union(part.start_ns[own], part.end_ns[own])
        inside = every & steps
        start, end = _in_single_steps(context, inside) if inside else (every.start, every.end)
        entry = Selection(
            kind=part.kind,
            name=part.name,
            rank=None,
            device=place if on_device and place != UNKNOWN else None,
            thread=None if on_device else _label(context, place),
            ns_per_step=inside.length / count if inside else None,
            count=len(own),
            spans=(),
            omitted=0,
            omitted_ns=0,
            outside_steps=not inside,
            ns=None if inside else every.length,
            lines=_lines(context, part, own),
            labels=_labels(context, part, own),
        )
        yield entry, start, end - start


def _lines(context: Context, part: Occurrences, own: I64) -> tuple[CallingLine, ...]:
    """The lines of the program that run in events of a thread, or that launch them, or with which idle time begins.

    Work of graphs belongs to the lines that captured it, where a file tells them.
    """
    rows = _rows(context, part, own) if context.trace.graph_stacks else np.empty(0, np.int64)
    if len(rows) and (captured := context.cached(graph_lines)).of_event[rows].any():
        names = [f"{at[-1].file}({at[-1].line}): {at[-1].function}" if at else "" for at in captured.stacks]
        return _longest(names, captured.of_event[rows], context.trace.device.dur_ns[rows])
    if not len(context.trace.frames):
        return ()
    start, length, thread = _begun(context, part, own)
    threads = thread.astype(np.int32)
    if part.kind == "host":
        found = line_times(context, threads, start, start + length)
        return _longest(context.trace.names, found.line + 1, found.time_ns, 1)
    codes = host_activity.python_lines(context, threads, start)
    return _longest(context.trace.names, codes + 1, length, 1)


def _labels(context: Context, part: Occurrences, own: I64) -> tuple[CallingLine, ...]:
    """What the program calls some of the events, which are kernels of graphs."""
    found = context.cached(graph_labels)
    if len(found.paths) == 1:
        return ()
    rows = _rows(context, part, own)
    names = [".".join(path) for path in found.paths]
    return _longest(names, found.of_event[rows], context.trace.device.dur_ns[rows])


def _longest(names: Sequence[str], codes: I64, length: I64, first_code: int = 0) -> tuple[CallingLine, ...]:
    """Of each name the number of events and their time; those with most time.

    Args:
        names: By code, less the first one.
        codes: Of each event the code of its name; 0 for none.
        length: Durations of the events in ns.
        first_code: The code of the first name.
    """
    known = np.flatnonzero(codes > 0)
    first, groups = group(codes[known])
    time = sum_by(groups, length[known], len(first))
    count = np.bincount(groups, minlength=len(first))
    return tuple(
        CallingLine(names[int(codes[known[first[line]]]) - first_code], int(time[line]), int(count[line]))
        for line in np.lexsort((first, -time))[:LINES].tolist()
    )


def _begun(context: Context, part: Occurrences, own: I64) -> tuple[I64, I64, I64]:
    """When some of the events begin or are launched, their durations, and the threads on which they do."""
    if part.kind == "device":
        device, launches = context.trace.device, context.trace.launches
        rows = _rows(context, part, own)
        rows = rows[context.links.launch[rows] != UNKNOWN]
        launch = context.links.launch[rows]
        return launches.start_ns[launch], device.dur_ns[rows], launches.thread[launch].astype(np.int64)
    thread = part.place[own]
    if part.kind == "idle":
        thread = np.full(len(own), context.cached(owner_index).critical.main)
    return part.start_ns[own], part.end_ns[own] - part.start_ns[own], thread


def _rows(context: Context, part: Occurrences, own: I64) -> I64:
    """Rows of the table of devices that some of the events are; none of other events."""
    if part.kind != "device":
        return np.empty(0, np.int64)
    device, starts = context.trace.device, ascending(part.start_ns[own])
    first_asked, end_of_asked = (np.searchsorted(starts, device.start_ns, side=side) for side in ("left", "right"))
    rows = np.flatnonzero(first_asked < end_of_asked)
    # Events with the same device, start and end are in one group: first those of the recording, then those in question.
    first, groups = group(
        np.concatenate((device.device[rows].astype(np.int64), part.place[own])),
        np.concatenate((device.start_ns[rows], part.start_ns[own])),
        np.concatenate((device.end_ns[rows], part.end_ns[own])),
    )
    is_asked = np.zeros(len(first), np.bool_)
    is_asked[groups[len(rows) :]] = True
    return rows[is_asked[groups[: len(rows)]]]


def _in_single_steps(context: Context, times: Intervals) -> tuple[I64, I64]:
    """Start and end of times, cut where a step begins."""
    begins = program_steps(context).typical.start_ns
    cuts = begins[times.within(begins - 1, begins + 1) == 2]
    return np.sort(np.append(times.start, cuts)), np.sort(np.append(times.end, cuts))


def _label(context: Context, thread: int) -> str:
    found = context.trace.threads[thread]
    return f"{found.pid}/{found.tid}"


def _parts(resolver: Resolver, change: StepChange) -> Iterator[Occurrences]:
    """The events that a change claims."""
    context = resolver.context
    if change.place is not None:
        yield from change.place.found(context)
    elif isinstance(change, LoaderShorter):
        yield from _of_loader(context)
    elif isinstance(change, CollectivesShorter) or COMMUNICATION in change.claims:
        yield from _of_collectives(context)
    elif isinstance(change, WaitsGone):
        yield _of_waits(resolver, change)
    elif isinstance(change, HostTime):
        yield from _of_host(resolver, change)
    else:
        yield from _of_device(resolver, change)


def _of_loader(context: Context) -> Iterator[Occurrences]:
    """Waits for the loader while nothing else runs: no device works, and no runtime call is open, as one that pins."""
    rows = outermost_loads(context)
    tree, launches = context.host.tree, context.trace.launches
    others = gaps.any_busy(context) | Intervals.union(launches.start_ns, launches.end_ns)
    for thread, found in members(tree.thread[rows]):
        own = rows[found]
        times = Intervals.union(tree.start_ns[own], tree.end_ns[own]) - others
        yield Occurrences("host", "DataLoader", np.full(len(times), thread), times.start, times.end)


def _of_collectives(context: Context) -> Iterator[Occurrences]:
    rows = np.flatnonzero(recorded_collectives.communication_kernels(context))
    if len(rows):
        yield Occurrences.on_device(context, "communication", rows)
        return
    rows = np.flatnonzero(context.cached(recorded_collectives.host_ranges))
    yield Occurrences.of_host(context, "communication", rows)


def _of_device(resolver: Resolver, change: StepChange) -> Iterator[Occurrences]:
    """The claimed device events; all, if none is claimed by name."""
    largest_first = sorted(change.claims, key=lambda events: -change.claims[events])
    named = [events for events in largest_first if events.of in ON_DEVICE]
    found = [each.device for each in map(resolver.rows, named) if each is not None and len(each.device)]
    if found:
        yield Occurrences.on_device(resolver.context, named[0].name, distinct(np.concatenate(found)))
    else:
        yield Occurrences.on_device(resolver.context, "gpu", np.arange(len(resolver.context.trace.device)))


def _of_host(resolver: Resolver, change: HostTime) -> Iterator[Occurrences]:
    """Named work of threads, or idle time of the device by its causes; else all work of the host."""
    context = resolver.context
    times = resolver.named_times(change)
    causes = [events.name for events in change.claims if events.of is Of.IDLE]
    if times is None and causes:
        yield from _of_idle(context, causes)
        return
    if times is None:
        host = resolver.host
        if len(host.thread):
            yield Occurrences("host", "host", host.thread, host.start_ns, host.end_ns)
        return
    found = Occurrences("host", _first_name(resolver, change), *times)
    if len(context.trace.device):
        yield found
        return
    # operators that they call have findings of their own
    tree = context.host.tree
    nodes = np.flatnonzero(np.isin(tree.start_ns, found.start_ns) & np.isin(tree.end_ns, found.end_ns))
    yield found.without_inner(context, nodes)


def _first_name(resolver: Resolver, change: HostTime) -> str:
    """The first of the named sets that the trace has."""
    return next(
        events.name for events in change.named if (rows := resolver.rows(events)) is not None and len(rows.thread)
    )


def _of_waits(resolver: Resolver, change: WaitsGone) -> Occurrences:
    """The idle time that waits cause; the calls themselves where nothing of a device was recorded."""
    calls = ascending(distinct(resolver.unblocked(change)))
    name = next((events.name for events in change.claims if events.of is not Of.IDLE), WAITS.name)
    idle = host_waits.idle_after(resolver.context, calls)
    if idle is None:
        return Occurrences.of_calls(resolver.context, name, calls)
    device, start, end = idle
    return Occurrences("idle", name, device, start, end)


def _of_idle(context: Context, causes: Sequence[str]) -> Iterator[Occurrences]:
    device = typical.device(context)
    known = [CAUSES.index(cause) for cause in causes if cause in CAUSES]
    if device is not None and known:
        found, counts = typical_gaps(context, device)
        start, end = found.spans(counts, known)
        yield Occurrences.idle(causes[0], device, start, end)
