"""Which steps are unlike the others, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

import numpy as np
from msgspec.structs import replace

from traceanalyzer.structure import gap_causes, gaps, host_waits
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.structure.recorded_collectives import exposed_anywhere
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import count_by
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.table import F64, I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

(
    EARLIER_WORK,
    RECORDING_END,
    LOADING,
    ALLOCATION,
    LOADER,
    OTHER_PHASE,
    COMMUNICATION,
    UNKNOWN,
) = (
    "earlier-work",
    "recording-end",
    "loading",
    "allocation",
    "loader",
    "other-phase",
    "communication",
    "unknown",
)
MARKED, OPTIMIZER = "ProfilerStep", "Optimizer.step"
"""What marks steps: the profiler, or the start of the optimizer."""
REASONS = frozenset(
    {
        EARLIER_WORK,
        RECORDING_END,
        LOADING,
        ALLOCATION,
        LOADER,
        OTHER_PHASE,
        COMMUNICATION,
        UNKNOWN,
    }
)
ONE_TIME = frozenset({LOADING, ALLOCATION, LOADER})
"""Reasons that are events of one step, which the next steps do not have."""
_MAY_BE_A_PHASE = frozenset({COMMUNICATION, UNKNOWN})
"""Reasons of steps whose mark may say more: a prefill among decode steps also sends more."""
FEWEST = 2
"""With fewer steps left than this, others count as well: a single one may be unlike them by chance."""
_PERIOD = 3
"""So many steps in a row that train, or do not, are a phase of the program (own choice)."""
_OUTLIER = 0.2
"""A step that differs from the median by more than this share of the median is not typical."""
_OFTEN, _OFTEN_SHARE = 3, 1 / 3
"""So many steps, and more than this share, that differ for no known reason are how the program runs (own choice)."""
_FAR = 5
"""So many times as long as the median one, a few steps are stalls even where steps vary (own choice)."""
_STRAYS = 2
"""So many times as far from the median as steps that count, one with longer collectives is still one of them: the waits
for other ranks vary, by a fifth each way (own choice)."""
_EDGE = 0.05
"""Share of a step that earlier work or the end of the recording must take (own choice: more than steps vary by)."""
_CUT, _BARELY_BEGUN = 0.5, 0.1
"""A last step is cut if it has less than half of the time and the operators of every other one, and no optimizer step,
or less than a tenth of the operators (own choice: batches and phases differ less, or in only one of these)."""
_WHOLE = 0.9
"""A last step that no mark ends is cut if it has less than this share of the operators of every other one (own choice:
data of other sizes need as many)."""
_STARTING = 5
"""First steps that take so many times as long as the later ones may be their start (own choice)."""
_EXPLAINS = 0.5
"""A one-time event explains a long step if it takes at least this share of the time beyond the median."""


def reasons(context: Context, steps: Steps) -> tuple[str | None, ...]:
    """Why each step is not typical, one of `REASONS`; None for typical steps."""
    if is_cut(context, steps):
        return *_of_periods(context, steps.take(slice(0, len(steps) - 1))), RECORDING_END
    return _of_periods(context, steps)


def is_cut(context: Context, steps: Steps) -> bool:
    """Whether the recording ended soon after the last step began, by the host's work in it.

    That is known of marks that stay open until the next step: those of the profiler, and steps between optimizers. A
    step of the latter is as long as others if the device is still at work when the host has ended. Where no operator is
    in the steps of the device, only their length tells.
    """
    trace, duration = context.trace, steps.end_ns - steps.start_ns
    if len(steps) < 2:
        return False
    if steps.found_by not in {MARKED, OPTIMIZER}:
        operators = _operators(context, steps)
        is_short = duration[-1] < _BARELY_BEGUN * duration[:-1].min()
        return bool(is_short and operators[-1] < _BARELY_BEGUN * operators[:-1].min())
    if steps.found_by == MARKED and duration[-1] >= _CUT * duration[:-1].min():
        return False
    start = trace.host.start_ns[trace.host.category == Category.OPERATOR]
    updates = steps.at(trace.host.start_ns[context.kind == NodeKind.OPTIMIZER])
    operators, optimizers = (
        _operators(context, steps),
        count_by(updates[updates >= 0], len(steps)),
    )
    fewest = operators[:-1].min()
    # Steps that begin with the optimizer end with the next one, which the last never has.
    is_open = steps.found_by == OPTIMIZER
    if is_open and not fewest:  # the host is so far ahead that it launched all before the device began
        return bool(duration[-1] < _CUT * duration[:-1].min())
    if start.max(initial=0) >= steps.end_ns[-1] or operators[-1] >= (_WHOLE if is_open else _CUT) * fewest:
        return False
    begun = is_open or (optimizers[:-1].all() and not optimizers[-1])
    return bool(begun or operators[-1] < _BARELY_BEGUN * fewest)


def _of_periods(context: Context, steps: Steps) -> tuple[str | None, ...]:
    """The same of steps of which none is cut.

    If some train and others evaluate, the phase that takes less time is left out; steps of the other are compared.
    """
    trains = in_training(context, steps)
    if not all(_is_period(alike) for alike in (trains, ~trains)):
        return _of_whole(context, steps)
    duration = steps.end_ns - steps.start_ns
    own = np.flatnonzero(trains == (duration[trains].sum() >= duration[~trains].sum()))
    found: list[str | None] = [OTHER_PHASE] * len(steps)
    changes = np.flatnonzero(np.append(trains[1:] != trains[:-1], False))
    for row, reason in zip(own.tolist(), _of_whole(context, steps.take(own)), strict=True):
        is_end = reason == RECORDING_END and row < len(steps) - 1
        is_change = reason == UNKNOWN and row in changes  # the last update has no pass of a training behind it
        found[row] = OTHER_PHASE if is_change else None if is_end else reason
    return tuple(found)


def in_training(context: Context, steps: Steps) -> Bool:
    """In which steps autograd evaluates something, or an optimizer updates parameters."""
    evaluated = context.host.tree.start_ns[np.flatnonzero(context.cached(evaluations))]
    updated = context.trace.host.start_ns[context.kind == NodeKind.OPTIMIZER]
    return np.isin(np.arange(len(steps)), steps.at(np.append(evaluated, updated)))


def calls_without_training(context: Context, steps: Steps) -> Bool:
    """In which steps operators are called, and none of them trains; a device may do what was called before."""
    found: Bool = ~in_training(context, steps) & (_operators(context, steps) > 0)
    return found


def _is_period(alike: Bool) -> bool:
    """Whether enough steps follow one another that are alike."""
    changes = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False])).astype(np.int8)))
    return bool((np.diff(changes)[::2] >= _PERIOD).any())


def _starting(context: Context, steps: Steps) -> int:
    """How many first steps load and compile what the few others then have: so many that the median is one of them."""
    duration = steps.end_ns - steps.start_ns
    (_, loading), *_ = _one_off(context, steps)
    for first in range(ceil(len(steps) / 2), len(steps)):
        usual = float(np.median(duration[first:]))
        explains = loading[:first] >= _EXPLAINS * (duration[:first] - usual)
        if duration[:first].min() >= _STARTING * max(usual, 1.0) and explains.all():
            return first
    return 0


def _of_whole(context: Context, steps: Steps) -> tuple[str | None, ...]:
    """The reasons of steps of which none is cut."""
    reasons: list[str | None] = [None] * len(steps)
    if len(steps) < 2:
        return tuple(reasons)
    if len(steps) > 2 and (first := _starting(context, steps)):
        return *[LOADING] * first, *_of_whole(context, steps.take(slice(first, len(steps))))
    duration = steps.end_ns - steps.start_ns
    median = float(np.median(duration))
    outliers = np.abs(duration - median) > _OUTLIER * median
    if outliers.any():
        reasons = _of_outliers(context, steps, outliers)
    if reasons[0] in (None, UNKNOWN) and _earlier_work_ns(context, steps) >= _EDGE * float(duration[0]):
        reasons[0] = EARLIER_WORK
    tail = _tails(context, steps)
    if float(tail[-1] - np.median(tail[:-1])) >= _EDGE * median:
        reasons[-1] = RECORDING_END
    return tuple(reasons)


def _of_outliers(context: Context, steps: Steps, outliers: Bool) -> list[str | None]:
    """For every step the reason why it is unlike the median one; None for those that are not."""
    duration = steps.end_ns - steps.start_ns
    excess = _beyond_median(duration)
    signs = [(reason, _explains(times, excess)) for reason, times in _one_off(context, steps)]
    does_more = _does_more(_operators(context, steps), excess, float(np.median(duration)))
    signs.append((OTHER_PHASE, does_more))
    reasons: list[str | None] = [None] * len(steps)
    for step in np.flatnonzero(outliers).tolist():
        reasons[step] = next((reason for reason, shown in signs if shown[step]), UNKNOWN)
    if UNKNOWN in reasons:
        strays = _STRAYS * float(np.abs(excess[~outliers]).max(initial=0.0))
        sends_more = _explains(_communication(context, steps), excess)
        for step in np.flatnonzero(sends_more).tolist():
            if reasons[step] == UNKNOWN:
                reasons[step] = COMMUNICATION if excess[step] > strays else None
    bursts = _bursts(context, steps, reasons)
    return [None if step in bursts else reason for step, reason in enumerate(reasons)]


def _bursts(context: Context, steps: Steps, reasons: Sequence[str | None]) -> set[int]:
    """The steps whose waits for the loader are how the program runs: workers that are too slow deliver in bursts.

    Workers start once in an epoch; but a first step that waits no longer than later ones shows no more than these.
    """
    late = [step for step, reason in enumerate(reasons) if reason == LOADER]
    if len(late) - (reasons[0] == LOADER) < 2:
        return set()
    starting = {0, *_with_new_epochs(context, steps)}
    bursts = [step for step in late if step not in starting]
    duration = steps.end_ns - steps.start_ns
    is_one = bool(bursts) and duration[0] <= (1 + _OUTLIER) * duration[bursts].max()
    return {*bursts, *([0] if is_one else [])}


def of_phases(reasons: Sequence[str | None], phases: Sequence[str | None]) -> tuple[str | None, ...]:
    """The same reasons, where a step without a known one is in another phase than most: a prefill among decode steps.

    Args:
        reasons: Of each step, as `reasons` gives them.
        phases: Of each step; None where its mark does not show it.
    """
    usual = Counter(phases).most_common(1)[0][0] if phases else None
    return tuple(
        OTHER_PHASE if reason in _MAY_BE_A_PHASE and phase is not None and phase != usual else reason
        for reason, phase in zip(reasons, phases, strict=True)
    )


def unless_often(reasons: Sequence[str | None], steps: Steps) -> tuple[str | None, ...]:
    """The same reasons, but no unknown ones if many later steps have one: then steps vary, and none is an exception.

    A first step that is longer than all others remains one, and so do a few that take far longer than the others.
    """
    if list(reasons[1:]).count(UNKNOWN) < max(_OFTEN, _OFTEN_SHARE * len(reasons)):
        return tuple(reasons)
    duration = steps.end_ns - steps.start_ns
    is_unknown = np.array([reason in (None, UNKNOWN) for reason in reasons], np.bool_)
    is_exception = is_unknown & (duration > _FAR * np.median(duration[is_unknown]))
    if is_exception.sum() >= max(_OFTEN, _OFTEN_SHARE * len(reasons)):
        is_exception[:] = False
    is_exception[0] |= duration[0] > duration[1:].max()
    return tuple(r if r != UNKNOWN or kept else None for r, kept in zip(reasons, is_exception, strict=True))


def _one_off(context: Context, steps: Steps) -> tuple[tuple[str, I64], ...]:
    """Time of each step in one-time events: loading code, allocating memory, starting workers of the loader."""
    timeline = gap_causes.explicit(context)
    labels = (gap_causes.COMPILATION, gap_causes.ALLOCATION, gap_causes.DATALOADER)
    loading, allocation, loader = timeline.within(steps.start_ns, steps.end_ns, labels)
    starting = host_waits.starting_workers(context).within(steps.start_ns, steps.end_ns)
    return (LOADING, loading), (ALLOCATION, allocation), (LOADER, loader + starting)


def _with_new_epochs(context: Context, steps: Steps) -> list[int]:
    """The steps in which an epoch begins after another, unless that is how the program runs: in many of them.

    The epoch before may end in the same step, or between two.
    """
    (last, first), (start, _) = (
        host_waits.epoch_turns(context),
        host_waits.loader_waits(context),
    )
    ends, begins = steps.at(start[last]), steps.at(start[first])
    found = distinct(np.where(ends < 0, begins, ends))
    begun = distinct(begins[begins >= 0]).tolist()
    return [*found[found >= 0].tolist(), *begun] if len(found) < max(_OFTEN, _OFTEN_SHARE * len(steps)) else []


def _communication(context: Context, steps: Steps) -> I64:
    """Time of each step in which collectives run and nothing computes."""
    found: I64 = context.cached(exposed_anywhere).within(steps.start_ns, steps.end_ns)
    return found


def _explains(times: I64, excess_ns: F64) -> Bool:
    """Which steps are longer than the median because they have more of the given time than the others.

    Args:
        times: Of each step.
        excess_ns: Time of each step beyond the median.
    """
    explained: Bool = (excess_ns > 0) & (_beyond_median(times) >= _EXPLAINS * excess_ns)
    return explained


def _beyond_median(values: I64) -> F64:
    """How much more than the median one each step has."""
    beyond: F64 = values - np.median(values)
    return beyond


def _operators(context: Context, steps: Steps) -> I64:
    """Number of operators that start in each step."""
    host = context.trace.host
    first, last = steps.rows_of(host.start_ns[host.category == Category.OPERATOR])
    return last - first


def _does_more(calls: I64, excess_ns: F64, median_ns: float) -> Bool:
    """Which steps are longer than the median because they call more operators: an evaluation between two updates.

    Args:
        calls: Operators of each step.
        excess_ns: Time of each step beyond the median.
        median_ns: Duration of the median step.
    """
    usual, more = float(np.median(calls)), _beyond_median(calls)
    is_more = (excess_ns > 0) & (usual > 0) & (more >= _OUTLIER * usual)
    explained: Bool = is_more & (more * median_ns >= _EXPLAINS * excess_ns * usual)
    return explained


def _earlier_work_ns(context: Context, steps: Steps) -> int:
    """Time of the first step, as it was marked, in which a device does work from before the recording."""
    device = context.trace.device
    start = int((steps.mark_ns[0] if steps.mark_ns is not None else steps.start_ns)[0])
    bounds = np.array([start]), steps.end_ns[:1]
    unlinked = context.links.launch == NO_PARENT
    # Without recorded launches, earlier work cannot be distinguished from the program's own.
    rows = unlinked & (device.start_ns < steps.end_ns[0]) & (2 * unlinked.sum() < len(device))
    times = [gaps.times_of(device, rows), *unrecorded_work(context).values()]
    return max(int(each.within(*bounds)[0]) for each in times)


def _tails(context: Context, steps: Steps) -> I64:
    """Time of each step after the last device event that starts in it; 0 for steps without any."""
    device = context.trace.device
    bounds = np.column_stack(steps.rows_of(device.start_ns)).ravel()
    last = np.maximum.reduceat(np.append(device.end_ns, 0), bounds)[::2]
    last = np.where(bounds[1::2] > bounds[::2], np.maximum(last, steps.start_ns), steps.start_ns)
    empty = last == steps.start_ns
    return np.where(empty, 0, np.maximum(steps.end_ns - last, 0))


def after_earlier_work(context: Context, steps: Steps) -> Steps:
    """Steps that contain unrecorded work begin at the first device event after it began."""
    device, start = context.trace.device, steps.start_ns.copy()
    for number, times in unrecorded_work(context).items():
        events = ascending(device.start_ns[device.device == number])
        first = int(events[np.searchsorted(events, times.start[0])])
        start[(start < first) & (steps.end_ns > first)] = first
    return replace(steps, start_ns=start)
