"""The longest gaps, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from traceanalyzer.structure import gap_causes, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES, EVERY_THREAD
from traceanalyzer.structure.gaps import Gaps
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.steps import step_names
from traceanalyzer.trace.table import I32, I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_SHOWN = 20
_NOT_OF_HOST = frozenset({gap_causes.UNRECORDED, gap_causes.PENDING, gap_causes.DEVICE, gap_causes.UNKNOWN})
_THREADS = 8
"""How many launching threads are examined, the busiest first."""


class LongGap(msgspec.Struct, frozen=True):
    """One gap in the activity of a device; times are those of its part within the window."""

    device: int
    """Number of the device as in the trace."""
    start_ns: int
    """Start of the gap in ns since the first event."""
    duration_ns: int
    """Length of the gap in ns."""
    cause: str
    """Id of the cause that has most of the gap, one of those of the analysis `idle`."""
    cause_ns: int
    """Time of the gap in ns that has that cause."""
    step: str | None
    """Number of the step in which the gap starts; null between steps."""
    thread: str | None
    """Id of the thread that the following fields describe; null where no thread launched anything."""
    operator: str | None
    """The innermost operator in the middle of the longest piece of the gap that has the cause; null if none ran."""
    annotation: str | None
    """The innermost annotation or loader at that time, steps excepted; null if none was open."""
    call: str | None
    """The runtime call at that time; null if none was open."""
    python_line: str | None
    """The Python line at that time, the user's own where there is one; null if there is none or stacks were not
    recorded."""
    drained_by: str | None
    """The waiting call that was open when the gap began, so that nothing was queued; null if there was none."""
    next_event: str | None
    """Name of the kernel, copy or fill that ended the gap; null after the last event."""
    owner: str | None = None
    """The part of the program that has most of the gap on the critical thread: `file.py(12): function`, a mark or a
    module, as in the analysis `host_owners`; null outside of the steps that count, where the host is not to blame, or
    where only operators and calls were recorded."""


def of_devices(context: Context, found: Mapping[int, Gaps]) -> tuple[LongGap, ...]:
    """The longest gaps of all devices; of equal ones the earlier first."""
    rows = []
    for device, gaps in found.items():
        chosen = np.lexsort((gaps.start_ns, -gaps.length))[:_SHOWN]
        rows += described(context, device, gaps.take(chosen))
    return tuple(sorted(rows, key=lambda gap: (-gap.duration_ns, gap.start_ns, gap.device))[:_SHOWN])


def described(context: Context, device: int, gaps: Gaps, *, blame_waits: bool = True) -> list[LongGap]:
    """Describe what the host did in each gap, in a loop for a few hundred gaps. As for `causes.attribute`."""
    trace, names = context.trace, context.trace.names
    times = gap_causes.attribute(context, gaps, blame_waits=blame_waits)
    main = times.argmax(axis=1)
    drained, _ = gap_causes.drained_by(context, gaps)
    drained[~gap_causes.fed_late(context, gaps)] = NO_PARENT
    moments = _moments(context, gaps, main, drained)
    activity = _activity(context, gap_causes.responsible_thread(context, gaps), moments)

    def named(codes: I64) -> list[str | None]:
        return [names[code] if code >= 0 else None for code in codes.tolist()]

    call_name, event_name = np.append(trace.launches.name, -1), np.append(trace.device.name, -1)
    columns = zip(
        gaps.start_ns.tolist(),
        gaps.length.tolist(),
        (CAUSES[cause] for cause in main.tolist()),
        times[np.arange(len(gaps)), main].tolist(),
        step_names(context.steps, gaps.start_ns),
        (trace.threads[thread].tid if thread >= 0 else None for thread in activity[0].tolist()),
        *(named(codes) for codes in activity[1:]),
        named(call_name[drained]),
        named(event_name[gaps.next]),
        _owners(context, gaps, main),
        strict=True,
    )
    return [LongGap(device, *values) for values in columns]


def _owners(context: Context, gaps: Gaps, main: I64) -> list[str | None]:
    """The owner with most of each gap that the host is to blame for."""
    if not gap_causes.fed_late(context, gaps).any():
        return [None] * len(gaps)
    index = context.once(owner_index)
    segments = index.timeline
    found: list[str | None] = []
    for start, end, cause in zip(gaps.start_ns.tolist(), gaps.end_ns.tolist(), main.tolist(), strict=True):
        low = int(np.searchsorted(segments.end_ns, start, side="right"))
        high = int(np.searchsorted(segments.start_ns, end))
        if cause in _NOT_OF_HOST or low >= high:
            found.append(None)
            continue
        times: dict[str | None, int] = {}
        for row in range(low, high):
            name = index.places[segments.owner[row]]
            length = min(end, int(segments.end_ns[row])) - max(start, int(segments.start_ns[row]))
            times[name] = times.get(name, 0) + length
        found.append(max(times, key=lambda name: times[name]))
    return found


def _moments(context: Context, gaps: Gaps, main: I64, drained: I64) -> I64:
    """For each gap, the middle of its longest piece that has its main cause."""
    timelines = gap_causes.timelines(context)
    thread = gap_causes.responsible_thread(context, gaps)
    late = gap_causes.fed_late(context, gaps)
    moments = (gaps.start_ns + gaps.end_ns) // 2
    for row in np.flatnonzero(late).tolist():
        timeline = timelines.get(int(thread[row]), timelines[EVERY_THREAD])
        begin, end, label = timeline.segments(int(gaps.start_ns[row]), int(gaps.end_ns[row]))
        fits = label == main[row]
        if not fits.any() and drained[row] != NO_PARENT:
            fits = label >= gap_causes.SYNCHRONIZATION  # causes that an emptied queue explains
        if fits.any():
            longest = int(np.where(fits, end - begin, -1).argmax())
            moments[row] = (begin[longest] + end[longest]) // 2
    return moments


def _activity(context: Context, thread: I32, moments: I64) -> tuple[I64, I64, I64, I64, I64]:
    """The thread that did something, and codes of its operator, annotation, call and Python line; -1 for none."""
    others = host_activity.launching_threads(context)[:_THREADS]
    if not others:
        return tuple(np.full(len(moments), -1, np.int64) for _ in range(5))  # type: ignore[return-value]
    chosen = np.where(thread == EVERY_THREAD, others[0], thread).astype(np.int32)
    result = _on_thread(context, chosen, moments)
    for other in others:
        silent = np.flatnonzero((result[1] < 0) & (result[2] < 0) & (result[3] < 0))
        if not len(silent):
            break
        there = _on_thread(context, np.full(len(silent), other, np.int32), moments[silent])
        speaks = (there[1] >= 0) | (there[2] >= 0) | (there[3] >= 0)
        for column, values in zip(result, there, strict=True):
            column[silent[speaks]] = values[speaks]
    return result


def _on_thread(context: Context, thread: I32, moments: I64) -> tuple[I64, I64, I64, I64, I64]:
    trace = context.trace
    operators = host_activity.operator_rows(context)
    annotation = (trace.host.category == Category.ANNOTATION) | (context.kind == NodeKind.DATALOADER)
    annotation &= (context.kind != NodeKind.STEP) & ~operators
    operator = host_activity.innermost(trace.host, np.flatnonzero(operators), thread, moments)
    label = host_activity.innermost(trace.host, np.flatnonzero(annotation), thread, moments)
    call = host_activity.innermost(trace.launches, np.arange(len(trace.launches)), thread, moments)
    host_name, call_name = np.append(trace.host.name, -1), np.append(trace.launches.name, -1)
    return (
        thread.astype(np.int64),
        host_name[operator].astype(np.int64),
        host_name[label].astype(np.int64),
        call_name[call].astype(np.int64),
        host_activity.python_lines(context, thread, moments).astype(np.int64),
    )
