"""What the host did in gaps of a device, whose they are, and which would not be there if it had never waited.

A host that waits while the device works loses that time: without the wait, all that it launches later would be launched
earlier by as much. So waits give a credit, and gaps that ended with a late launch use it up in the order of time. What
is left at a gap is what the host would be ahead by.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from traceanalyzer.knowledge.host_roles import BUFFERS, INPUTS, OUTPUTS, REQUESTS
from traceanalyzer.structure import gap_causes, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES, EVERY_THREAD
from traceanalyzer.structure.gaps import Gaps, busy
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.host_waits import scaler_reads
from traceanalyzer.structure.idle_times import DividedGaps
from traceanalyzer.structure.owners import Owner, OwnerIndex, owner_index
from traceanalyzer.structure.steps import Steps, step_names
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import is_among, moments
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import F64, I32, I64, Array, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_SHOWN = 20
_OF_THE_DEVICE = (
    gap_causes.UNRECORDED,
    gap_causes.PENDING,
    gap_causes.DEVICE,
    gap_causes.UNKNOWN,
)
"""Causes of idle time that no earlier launch ends."""
_THREADS = 8
"""How many launching threads are examined, the busiest first."""
OF_OTHER_RULES = frozenset({*INPUTS, OUTPUTS, BUFFERS, REQUESTS})
"""Roles of work that are separate causes of idle time."""

_AT_ONCE = 10_000
"""Longest time in ns between two calls that wait for the same (own choice: the second follows within 2 to 5 us)."""


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


def longest_gaps(context: Context, found: Mapping[int, Gaps]) -> tuple[LongGap, ...]:
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
    thread, *activity = _activity(context, gap_causes.responsible_thread(context, gaps), moments)
    drained_by = np.append(trace.launches.name, -1)[drained]
    next_event = np.append(trace.device.name, -1)[gaps.next]
    columns = zip(
        gaps.start_ns.tolist(),
        gaps.length.tolist(),
        [CAUSES[cause] for cause in main.tolist()],
        times[np.arange(len(gaps)), main].tolist(),
        step_names(context.steps, gaps.start_ns),
        [trace.threads[row].tid if row >= 0 else None for row in thread.tolist()],
        *(_texts(names, codes) for codes in (*activity, drained_by, next_event)),
        _owners(context, gaps, main),
        strict=True,
    )
    return [LongGap(device, *values) for values in columns]


def _texts(names: Strings, codes: Array) -> list[str | None]:
    """The names of codes; None for -1."""
    return [names[code] if code >= 0 else None for code in codes.tolist()]


def _owners(context: Context, gaps: Gaps, main: I64) -> list[str | None]:
    """The owner with most of each gap that the host is to blame for."""
    if not gap_causes.fed_late(context, gaps).any():
        return [None] * len(gaps)
    index = context.cached(owner_index)
    segments = index.timeline
    found: list[str | None] = []
    for start, end, cause in zip(gaps.start_ns.tolist(), gaps.end_ns.tolist(), main.tolist(), strict=True):
        low = int(np.searchsorted(segments.end_ns, start, side="right"))
        high = int(np.searchsorted(segments.start_ns, end))
        if cause in _OF_THE_DEVICE or low >= high:
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
    known = gap_causes.own_timelines(context)
    thread = gap_causes.responsible_thread(context, gaps)
    late = gap_causes.fed_late(context, gaps)
    moments = (gaps.start_ns + gaps.end_ns) // 2
    for row in np.flatnonzero(late).tolist():
        timeline = gap_causes.timeline(context, int(thread[row]) if thread[row] in known else EVERY_THREAD)
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
    host_name = np.append(trace.host.name, -1)
    call_name = np.append(trace.launches.name, -1)
    return (
        thread.astype(np.int64),
        host_name[operator].astype(np.int64),
        host_name[label].astype(np.int64),
        call_name[call].astype(np.int64),
        host_activity.python_lines(context, thread, moments).astype(np.int64),
    )


class OwnedGaps(msgspec.Struct, frozen=True):
    """Parts of gaps by owner; times in ns."""

    index: OwnerIndex
    gap: I64
    """Position of the gap of each part."""
    owner: I64
    """Number of the owner of each part, -1 for none."""
    time: F64
    """Time of each part: its share of what the host took in the gap."""
    start_ns: I64
    """Start of the gap of each part."""
    gaps: int

    @property
    def steps(self) -> int:
        """Number of steps that have owners."""
        return self.index.critical.steps

    @property
    def known(self) -> I64:
        """Time of each gap that has an owner."""
        return self._sum(self.owner != NO_PARENT)

    @property
    def elsewhere(self) -> I64:
        """Time of each gap whose owner has a role that is a separate cause."""
        roles = np.array([own.role in OF_OTHER_RULES for own in self.index.owners] + [False])
        return self._sum(roles[self.owner])

    def largest(self, chosen: Bool, count: int) -> list[tuple[Owner, int, int]]:
        """Owners of the chosen gaps with their time and the start of their longest part, the most time first."""
        rows = np.flatnonzero(chosen[self.gap] & (self.owner != NO_PARENT) & (self.time >= 1))
        owner = self.owner[rows]
        total = np.bincount(owner, weights=self.time[rows], minlength=len(self.index.owners))
        longest = rows[np.lexsort((self.start_ns[rows], -self.time[rows], owner))]
        first = dict(
            zip(
                self.owner[longest][::-1].tolist(),
                self.start_ns[longest][::-1].tolist(),
                strict=True,
            )
        )
        order = np.lexsort((np.arange(len(total)), -total))[:count].tolist()
        return [(self.index.owners[number], round(total[number]), first[number]) for number in order if number in first]

    def _sum(self, rows: Bool) -> I64:
        return np.bincount(self.gap[rows], weights=self.time[rows], minlength=self.gaps).astype(np.int64)


def by_owner(context: Context, gaps: Gaps, time: I64) -> OwnedGaps:
    """Divide the time of gaps among the owners of the critical thread.

    Args:
        context: The trace.
        gaps: Gaps of one device, in the order of time.
        time: What the host took of each gap in ns; gaps of 0 are left out.
    """
    index = context.cached(owner_index)
    segments = index.timeline
    rows = np.flatnonzero(time > 0)
    start = gaps.start_ns[rows]
    end = gaps.end_ns[rows]
    bounds = moments(start, end, segments.start_ns, segments.end_ns)
    low = bounds[:-1]
    high = bounds[1:]
    gap = _around(start, end, low)
    segment = _around(segments.start_ns, segments.end_ns, low)
    both = np.flatnonzero((gap != NO_PARENT) & (segment != NO_PARENT))
    length = (high - low)[both]
    gap = rows[gap[both]]
    part = (length * (time[gap] / (gaps.end_ns - gaps.start_ns)[gap])).astype(np.float64)
    return OwnedGaps(index, gap, segments.owner[segment[both]], part, gaps.start_ns[gap], len(time))


def _around(start: I64, end: I64, moments: I64) -> I64:
    """The interval around each moment, -1 for none; intervals are disjoint and in the order of time."""
    found = np.searchsorted(start, moments, side="right") - 1
    inside = found >= 0
    inside[inside] = end[found[inside]] > moments[inside]
    return np.where(inside, found, NO_PARENT)


def shares_after_waits(context: Context, device: int, part: DividedGaps) -> F64:
    """For each part of a gap that the host caused, the share (0 to 1) that would disappear without waits."""
    length = part.gaps.length - sum(part.of_cause(cause) for cause in _OF_THE_DEVICE)
    credit = _lost(context, device).within(np.zeros(len(length), np.int64), part.gaps.end_ns)
    balance = credit - np.cumsum(length)
    left = balance - np.minimum(0, np.minimum.accumulate(balance)) if len(balance) else balance
    before = np.append(0, left)[: len(left)] + np.diff(credit, prepend=0)
    explained: F64 = (before - left) / np.maximum(length, 1)
    return explained


def after_waits_by_cause(part: DividedGaps, share: F64, parts: Bool) -> I64:
    """That time of some of the parts by cause in ns, shape (causes,)."""
    chosen = parts[part.part] & ~np.isin(part.cause, _OF_THE_DEVICE)
    time = np.rint(part.time_ns[chosen] * share[part.part[chosen]]).astype(np.int64)
    return sum_by(part.cause[chosen], time, len(CAUSES))


def count_waits(context: Context, steps: Steps, chosen: Bool) -> tuple[int, int]:
    """How many waits of threads that launch begin in the chosen steps: calls, and waits for different work.

    A copy that blocks is followed at once by a call that waits for it: two calls, and one wait.
    """
    waits = context.cached(_of_launching_threads)
    copies = context.trace.names.where(host_activity.is_copy_call)[context.trace.launches.name[waits.row]]
    order = np.lexsort((waits.start_ns, waits.thread))
    follows = np.zeros(len(order), np.bool_)
    before = order[:-1]
    after = order[1:]
    is_near = waits.start_ns[after] - waits.end_ns[before] <= _AT_ONCE
    follows[after] = (waits.thread[after] == waits.thread[before]) & is_near & copies[before] & ~copies[after]
    counts = take_or(chosen, steps.at(waits.start_ns), False)
    return int(counts.sum()), int((counts & ~follows).sum())


def _lost(context: Context, device: int) -> Intervals:
    """When threads that launch work wait while the device works, but not for what AMP's gradient scaler must know."""
    waits = context.cached(_of_launching_threads)
    waits = waits.take(np.flatnonzero(~is_among(waits.row, scaler_reads(context))))
    return Intervals.union(waits.start_ns, waits.end_ns) & busy(context, device)


def _of_launching_threads(context: Context) -> HostWaits:
    waits = context.cached(host_activity.waits)
    return waits.take(np.flatnonzero(is_among(waits.thread, host_activity.launching_threads(context))))
