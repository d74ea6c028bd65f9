"""How busy is each device in the steps that the program repeats, and does the host feed it kernel by kernel or not?

`idle` is about the whole window: time between steps and steps that load code count there. Here only steady steps count:
typical steps of the program in which no device waits for code; of a recording of one step, what is left without the
gaps in which code is loaded or compiled. Nothing after the last device event counts, where the
recording ends. Gaps that the host could have prevented are divided
by length: gaps up to `launching_limit_ns` are the time to launch one event after the other; in longer ones the host did
something else. With stacks, Python code outside of operators counts as something else in every gap of 50 us or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analyzers.idle import gap_details
from traceanalyzer.analyzers.idle.gap_details import LongGap, described
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gap_causes, gaps, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import WAITS, Occurrences, event_set
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.gaps import Gaps
from traceanalyzer.structure.idle_times import DividedGaps, divide
from traceanalyzer.structure.recording import HostPart, typical_gaps
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64, Bool, take_or

_WARM_UP = 0.05
"""A step in which the device waits for code to be loaded or compiled for at least this share does not count.

Own choice: steps vary by a few percent; first uses take many times that."""
_FEW_LAUNCHES = 10
"""Launches that one gap may take at the usual pace of the host (own choice)."""
_SHORT_NS = 50_000
"""At least that long are gaps of launching: about ten launches at the 5 us that one takes."""
AFTER_WAITS = (gap_causes.SYNCHRONIZATION, gap_causes.LAUNCH)
"""Causes of idle time that goes away where the host no longer waits: it has launched long before."""
LAUNCHING = (gap_causes.LAUNCH, gap_causes.HOST)
"""Causes of idle time in which the host does not wait."""
_MOST = 0.5
"""Share of a gap from which on waits explain it."""
_GAPS = 200
"""How many of the longest gaps are examined one by one."""
_SHOWN = 10
MOST_OWNERS = 10
"""Owners of gaps that are listed, at most."""
_PARTS = 100
"""Number of equal parts of the window that show whether a device is busy all the time."""


class StepCause(msgspec.Struct, frozen=True):
    """How long a device did nothing in steady steps for one cause."""

    cause: str
    """Id of the cause, one of those of the analysis `idle`."""
    time_ns: int
    """Time in ns for which the device did nothing in steady steps for this cause."""
    launching_ns: int
    """The part of that time in ns in gaps that are short enough to be the time between two launches."""
    later_ns: int = 0
    """The part of the time in ns in steady steps after the first recorded step."""
    after_waits_ns: int = 0
    """The part of the time in ns that would not be there if the host had never waited for the device: gaps after waits,
    until they add up to the waiting."""
    launching_after_waits_ns: int = 0
    """Part of `launching_ns` that would disappear in the same way."""


class HostGap(msgspec.Struct, frozen=True):
    """Gaps of a device in which the host did the same thing, other than to launch one kernel after the other."""

    python_line: str | None
    """The Python line that ran; null if there is none or stacks were not recorded."""
    operator: str | None
    """The innermost operator that ran; null if none did."""
    annotation: str | None
    """The innermost annotation or loader that was open; null if none was."""
    gaps: int
    """Number of gaps."""
    time_ns: int
    """Time in these gaps in ns in which the host did something else than wait for the device."""
    longest_ns: int
    """Length in ns of the gap with the most such time."""
    longest_start_ns: int
    """Start of that gap in ns since the first event."""


class GapOwner(HostPart, frozen=True):
    """Owners of the time of these gaps, as in the analysis `host_owners`."""

    time_ns: int
    """Time of such gaps in ns that is the owner's, in the steps that count as typical."""
    longest_start_ns: int
    """Start of the gap in ns in which the owner has most, since the first event."""


class DeviceInSteps(msgspec.Struct, frozen=True):
    """One device in the steady steps."""

    device: int
    """Number of the device as in the trace."""
    time_ns: int
    """Duration of the steady steps in ns, without what follows the device's last event."""
    busy_ns: int
    """Time of the steady steps in which a kernel, copy or fill runs, in ns."""
    events: int
    """Number of kernels, copies and fills that start in the steady steps."""
    causes: tuple[StepCause, ...]
    """Idle time by cause; all causes are listed and sum to the idle time."""
    launching_limit_ns: int
    """The longest gap in ns that counts as the time between two launches."""
    launching_gaps: int
    """Number of gaps up to that limit in which the device waited for a launch."""
    typical_host_gap_ns: float | None
    """Idle time per step in ns that the host spent on something else than launching one kernel after the other, also
    after a wait that emptied the queue: the median over the steady steps but the first, or the only steady step. Null
    without a steady step."""
    host_gaps: tuple[HostGap, ...]
    """What the host did in the longest of these gaps, the most time first."""
    low_busy_share: float | None
    """Busy share (0 to 1) that the least busy 5 % of the equal parts of the window do not exceed; only parts within
    steady steps count, null if there is none."""
    high_busy_share: float | None
    """Busy share (0 to 1) that the busiest 5 % of these parts at least reach; null if there is no part."""
    gap_owners: tuple[GapOwner, ...] = ()
    """Whose the time of the gaps is in which the host did something else, the most time first, at most ten."""
    typical_other_gap_ns: float | None = None
    """As `typical_host_gap_ns`, without input preprocessing and DDP's broadcast of buffers, which are causes of their
    own; null without a steady step."""
    owner_steps: int = 0
    """Number of steps that the times of `gap_owners` are about."""
    launching_owners: tuple[GapOwner, ...] = ()
    """Owners of the time of launching gaps, the most time first, at most ten."""
    launching_gaps_after_waits: int = 0
    """Number of launching gaps of which most would not be there if the host had never waited for the device."""
    silent_gap_ns: int = 0
    """Part of the time in ns of the gaps in which the host did something else during which it had no operator and no
    call open."""
    long_gaps: int = 0
    """Number of gaps beyond that limit in which the device waited for a launch."""


class StepIdle(msgspec.Struct, frozen=True):
    """How busy each device is in the steps that the program repeats."""

    steps: int
    """Number of steady steps, which the figures are about: typical steps in which no device waits for code, or the only
    step without the gaps in which one does."""
    warm_up_steps: int
    """Number of steps that were left out because a device waited for code to be loaded or compiled."""
    has_stacks: bool
    """Whether Python frames were recorded; they name what the host did, and slow it down."""
    steps_from: str | None
    """What marks the steps, as in the analysis `recording`."""
    devices: tuple[DeviceInSteps, ...]
    """Every device that ran a kernel, by number."""
    later_steps: int = 0
    """Number of steady steps after the first recorded step."""
    waits: int = 0
    """Number of calls that wait for a device and that threads which launch begin in steady steps."""
    waits_apart: int = 0
    """The same without calls that wait for a copy that has blocked: they begin within 10 us of its end."""


def analyze(context: Context) -> StepIdle:
    """Analyze every device that ran a kernel, in the typical steps in which none of them waits for code."""
    steps = program_steps(context).every
    parts = {number: divide(context, number, steps).in_steps() for number in gaps.with_kernels(context)}
    ready = np.ones(len(steps), np.bool_)
    for part in parts.values():
        loading = np.bincount(part.step, weights=part.of_cause(gap_causes.COMPILATION), minlength=len(steps))
        ready &= loading <= _WARM_UP * (steps.end_ns - steps.start_ns)
    ready |= len(steps) == 1
    steady = ready & program_steps(context).is_typical
    devices = tuple(_device(context, steps, steady, number, part) for number, part in parts.items())
    has_stacks = len(context.trace.frames) > 0
    calls, apart = gap_details.count_waits(context, steps, steady)
    return StepIdle(
        int(steady.sum()),
        int((~ready).sum()),
        has_stacks,
        steps.found_by,
        devices,
        later_steps=int(steady[1:].sum()),
        waits=calls,
        waits_apart=apart,
    )


def _device(context: Context, steps: Steps, steady: Bool, number: int, part: DividedGaps) -> DeviceInSteps:
    # Each array has a row for each gap of the device; those that end with the recording do not count, and of a single
    # cold step those of loading.
    counts = steady[part.step] & (part.gaps.next != gaps.NOTHING) & _is_warm(steps, part)
    time = _time(steps, steady, part, counts)
    limit = _launching_limit(context, steps, steady)
    is_short = part.gaps.whole_end_ns - part.gaps.whole_start_ns <= limit
    short = counts & is_short
    named = short & (_named(context, part) > 0)  # their Python time is listed with long gaps
    waited = gap_details.shares_after_waits(context, number, part)
    of_launches = part.of_cause(gap_causes.LAUNCH) + part.of_cause(gap_causes.HOST)
    is_late = of_launches > 0
    host = _other_host_time(context, part, counts, np.where(is_short, _named(context, part), of_launches))
    of_calls = of_launches - np.where(named, part.of_cause(gap_causes.HOST), 0)
    launched = gap_details.by_owner(context, part.gaps, np.where(short, of_calls, 0))
    low, high = _busy_extremes(context, steps, steady, number)
    return DeviceInSteps(
        device=number,
        time_ns=time,
        busy_ns=time - int(part.by_cause(counts).sum()),
        events=_events(context, number, steps, steady),
        causes=_causes(part, counts, is_short, named, waited),
        launching_limit_ns=limit,
        launching_gaps=int((short & is_late).sum()),
        typical_host_gap_ns=_typical(part.step[host.gaps], host.time[host.gaps], steady),
        host_gaps=_host_gaps(context, number, part.gaps, np.flatnonzero(host.gaps), host.time),
        low_busy_share=low,
        high_busy_share=high,
        gap_owners=_owners(host.owned, host.gaps),
        typical_other_gap_ns=_typical(part.step[host.gaps], host.rest[host.gaps], steady),
        owner_steps=host.owned.steps,
        launching_owners=_owners(launched, short),
        launching_gaps_after_waits=int((short & is_late & (waited > _MOST)).sum()),
        silent_gap_ns=int(part.of_cause(gap_causes.HOST)[host.gaps].sum()),
        long_gaps=int((counts & ~is_short & is_late).sum()),
    )


def _is_warm(steps: Steps, part: DividedGaps) -> Bool:
    """Which gaps are not those in which the only step loads code; all gaps, if it loads little or there are more."""
    loading = part.of_cause(gap_causes.COMPILATION)
    if len(steps) > 1 or loading.sum() <= _WARM_UP * int((steps.end_ns - steps.start_ns).sum()):
        return np.ones(len(loading), np.bool_)
    warm: Bool = loading == 0
    return warm


class _OtherHostTime(NamedTuple):
    """Time of gaps in which the host did something else than launch."""

    gaps: Bool
    """The gaps that have such time."""
    time: I64
    """That time of each gap, in ns."""
    rest: I64
    """That time without owners whose role is a separate cause."""
    owned: gap_details.OwnedGaps
    """That time by owner."""


def _other_host_time(context: Context, part: DividedGaps, counts: Bool, time: I64) -> _OtherHostTime:
    """Divide such time of the gaps that count among owners; what lies before the first event of all is left out."""
    chosen = counts & (time > 0)
    owned = gap_details.by_owner(context, part.gaps, np.where(chosen, time, 0))
    # Time before the first event of all counts if recorded events show what it is.
    chosen &= part.gaps.has_previous | (2 * owned.known >= time)
    return _OtherHostTime(chosen, time, np.maximum(time - owned.elsewhere, 0), owned)


def _time(steps: Steps, steady: Bool, part: DividedGaps, counts: Bool) -> int:
    """The time of the typical steps, without gaps that end with the recording."""
    tail = int(part.gaps.length[steady[part.step] & ~counts].sum())
    return int((steps.end_ns - steps.start_ns)[steady].sum()) - tail


def _events(context: Context, number: int, steps: Steps, steady: Bool) -> int:
    """How many events of a device start in the typical steps."""
    start = context.trace.device.start_ns[context.trace.device.device == number]
    within = np.searchsorted(start, steps.end_ns[steady]) - np.searchsorted(start, steps.start_ns[steady])
    return int(within.sum())


def _causes(part: DividedGaps, counts: Bool, short: Bool, named: Bool, waited: F64) -> tuple[StepCause, ...]:
    """The idle time by cause.

    Args:
        part: The gaps of the device, divided by cause.
        counts: Those that count.
        short: Those that are not longer than launches make them.
        named: Short ones of which stacks show the Python code; it counts with that of long gaps.
        waited: The share of each gap that would not be there without waits for the device.
    """
    launching = part.by_cause(counts & short)
    launching[gap_causes.HOST] -= part.by_cause(named)[gap_causes.HOST]
    after_waits = gap_details.after_waits_by_cause(part, waited, counts)
    launching_after_waits = gap_details.after_waits_by_cause(part, waited, counts & short)
    launching_after_waits[gap_causes.HOST] -= gap_details.after_waits_by_cause(part, waited, named)[gap_causes.HOST]
    later = part.by_cause(counts & (part.step > 0))
    columns = (part.by_cause(counts), launching, later, after_waits, launching_after_waits)
    return tuple(map(StepCause, CAUSES, *(times.tolist() for times in columns)))


@event_set
def launching_gaps_at(context: Context, *, waits: bool, whole: bool = False) -> Iterator[Occurrences]:
    """The time in short gaps in which the host runs operators and launches.

    Args:
        context: The trace.
        waits: Whether calls after waits are left out, because the program waits so often that these cause the gaps.
        whole: Whether long gaps count as well, and all that the host does in them.
    """
    for gap in _idle_gaps(context):
        if whole:
            yield gap.times("launch_bound", (gap.counts, LAUNCHING))
            continue
        calls = ~gap.is_long & ~gap.is_named & ~(gap.is_after_wait & waits)
        yield gap.times(
            "launch_bound", (calls, LAUNCHING), (gap.is_named & ~(gap.is_after_wait & waits), LAUNCHING[:1])
        )


@event_set
def long_gaps_at(context: Context, *, waits: bool) -> Iterator[Occurrences]:
    """The time in long gaps in which the host does something else than wait; with stacks, that of Python in others."""
    for gap in _idle_gaps(context):
        calls = gap.is_long & ~(gap.is_after_wait & waits)
        yield gap.times("host_code", (gap.is_long | gap.is_named, LAUNCHING[1:]), (calls, LAUNCHING[:1]))


@event_set
def waits_at(context: Context) -> Iterator[Occurrences]:
    """The idle time of `AFTER_WAITS` that would not be there without waits for the device."""
    for gap in _idle_gaps(context):
        yield gap.times(WAITS.name, (gap.is_after_wait, AFTER_WAITS))


class _IdleGaps(msgspec.Struct, frozen=True):
    """The gaps of the busiest device in the typical steps that an event ended, by what explains them."""

    device: int
    part: DividedGaps
    counts: Bool
    is_long: Bool
    is_named: Bool
    """Short, but stacks show which Python code ran."""
    is_after_wait: Bool

    def times(self, name: str, *chosen: tuple[Bool, tuple[int, ...]]) -> Occurrences:
        """The time of some causes in some of the gaps."""
        spans = [self.part.spans(self.counts & gaps, causes) for gaps, causes in chosen]
        return Occurrences.idle(name, self.device, *map(np.concatenate, zip(*spans, strict=True)))


def _idle_gaps(context: Context) -> Iterator[_IdleGaps]:
    device = typical.device(context)
    if device is None:
        return
    steps = program_steps(context)
    part, counts = typical_gaps(context, device)
    limit = _launching_limit(context, steps.every, steps.is_typical)
    is_long = part.gaps.whole_end_ns - part.gaps.whole_start_ns > limit
    waited = gap_details.shares_after_waits(context, device, part) > _MOST
    counts &= (part.gaps.next != gaps.NOTHING) & _is_warm(steps.every, part)
    yield _IdleGaps(device, part, counts, is_long, ~is_long & (_named(context, part) > 0), waited)


def _owners(owned: gap_details.OwnedGaps, chosen: Bool) -> tuple[GapOwner, ...]:
    """The owners with most time of some gaps."""
    rows = owned.largest(chosen, MOST_OWNERS)
    return tuple(GapOwner(own.kind, own.name, own.role, own.file, own.line, time, start) for own, time, start in rows)


def _named(context: Context, part: DividedGaps) -> I64:
    """Time of each gap of 50 us or more that recorded stacks attribute to Python code outside of operators."""
    long = part.gaps.whole_end_ns - part.gaps.whole_start_ns >= _SHORT_NS
    return np.where(long & (len(context.trace.frames) > 0), part.of_cause(gap_causes.HOST), 0)


def _launching_limit(context: Context, steps: Steps, steady: Bool) -> int:
    """Ten times the median pause between calls that put something on a device, but at least 50 us."""
    start = context.trace.launches.start_ns[context.links.calls]  # ascending, as the rows of the table are
    step = steps.at(start)
    inside = take_or(steady, step, False)
    together = inside[1:] & inside[:-1] & (step[1:] == step[:-1])
    pauses = np.diff(start)[together]
    return max(_SHORT_NS, int(_FEW_LAUNCHES * np.median(pauses))) if len(pauses) else _SHORT_NS


def _typical(step: I64, time: I64, steady: Bool) -> float | None:
    """The median over the steady steps of the sum of some times by step, without the first if there are more."""
    numbers = np.flatnonzero(steady)
    if not len(numbers):
        return None
    per_step: F64 = np.bincount(step, weights=time, minlength=len(steady)).astype(np.float64)[numbers]
    return float(np.median(per_step[1:] if len(per_step) > 1 else per_step))


def _host_gaps(context: Context, device: int, every: Gaps, rows: I64, time: I64) -> tuple[HostGap, ...]:
    """The work of the host in the gaps in which it did something else for longest."""
    chosen = rows[np.argsort(-time[rows], kind="stable")[:_GAPS]]
    found: dict[tuple[str | None, str | None, str | None], list[tuple[int, LongGap]]] = {}
    gaps = described(context, device, every.take(chosen), blame_waits=False)
    for gap, ns in zip(gaps, time[chosen].tolist(), strict=True):
        found.setdefault((gap.python_line, gap.operator, gap.annotation), []).append((ns, gap))
    summed = [
        HostGap(*doing, len(own), sum(ns for ns, _ in own), own[0][1].duration_ns, own[0][1].start_ns)
        for doing, own in found.items()
    ]
    return tuple(sorted(summed, key=lambda row: (-row.time_ns, row.longest_start_ns))[:_SHOWN])


_KERNELS = Need(
    Text("skip-step-idle-no-kernels", "the trace has no kernels with a device number, so idle time is unknown"),
    lambda context: bool(gaps.with_kernels(context)),
)
_STEPS = Need(
    Text("skip-step-idle-no-steps", "all steps have a length of 0, so there is no time in which a GPU could idle"),
    lambda context: program_steps(context).every.has_length,
)
ANALYSES = (Analysis(140, "step_idle", StepIdle, analyze, needs=(_KERNELS, _STEPS)),)


def _busy_extremes(context: Context, steps: Steps, steady: Bool, number: int) -> tuple[float | None, float | None]:
    """Busy shares (0 to 1) of the least and the most busy 5 % of equal parts of the window, within steady steps.

    None and None without such a part.
    """
    bounds = np.linspace(int(steps.start_ns[0]), int(steps.end_ns[-1]), _PARTS + 1).astype(np.int64)
    start = bounds[:-1]
    end = bounds[1:]
    inside = Intervals.union(steps.start_ns[steady], steps.end_ns[steady]).within(start, end) == end - start
    start, end = start[inside & (end > start)], end[inside & (end > start)]
    if not len(start):
        return None, None
    busy = gaps.busy(context, number).within(start, end)
    low, high = np.percentile(busy / (end - start), (5, 95)).tolist()
    return low, high
