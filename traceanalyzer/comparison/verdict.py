"""Did steps become faster or slower, or is it inconclusive?

Two tests share the 5 % of false alarms that are allowed: the typical step (rank-sum) takes most of them, because it is
what outliers leave alone; the mean has the rest, because what happens in every tenth step is a change, too. The
intervals have the same levels, so that a change is what its interval says.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from traceanalyzer.comparison import noise, statistics
from traceanalyzer.comparison.clocks import SAME_CLOCK
from traceanalyzer.comparison.measurement import Measurement
from traceanalyzer.comparison.noise import Spread, Statistic
from traceanalyzer.report.difference import Comparability, Sample, Shift, StepTime, Verdict
from traceanalyzer.report.gate import Noise
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.table import F64

LEAST_STEPS = 5
"""A side with fewer steps tells only of a change that its noise excludes: with four, no division into two sides is
rarer than 1 in 35."""

_TYPICAL_LEVEL = 0.04
_MEAN_LEVEL = 0.01
LEAST_CHANGE = 0.01
"""Least share of the base that counts as a change (own choice: runs of one program differ by as much)."""

_PRINTED_CHANGE = 0.2
"""Least share of the base that counts as a change where only sums over steps are known (own choice)."""

TOLERANCE = 0.03
"""Share of the base that the intervals of median and mean must stay within for "no change" (own choice)."""

_RECORDINGS_DIFFER = 0.12, 0.4
"""By how much the median steps of two recordings of one program on a CPU differ: in the middle of 144 pairs, and at
most in nine of ten (measured: third to fifth run of the lab, two cores of a virtual machine)."""

_AT_CLOCKS = (
    Text(
        "diff-clock-faster",
        "{reason} Its GPUs work at a clock that is {clock:share} higher ({base:number} and {head:number} MHz), which "
        "explains that: it is no improvement of the code.",
        "reason is a sentence: the median step is 5 % faster",
    ),
    Text(
        "diff-clock-slower",
        "{reason} Its GPUs work at a clock that is {clock:share} lower ({base:number} and {head:number} MHz), which "
        "explains that: it is no regression of the code.",
        "reason is a sentence: the median step is 5 % slower",
    ),
)
"""Changes that are no greater than what the clocks explain."""
_IDENTICAL = Text("diff-identical", "The steps of both sides are the same measurement.")
_FASTER = Text(
    "diff-test-faster",
    "The {statistic} step is {share:share} faster (p {p:probability}).",
    "statistic: see diff-median",
)
_SLOWER = Text(
    "diff-test-slower",
    "The {statistic} step is {share:share} slower (p {p:probability}).",
    "statistic: see diff-median",
)
_MAY_BE_MACHINE = Text(
    "diff-may-be-machine",
    "{reason} Each side is one recording on a CPU, so this may be the machine: two recordings of one program differed "
    "by {usual:share} in the median of many pairs, and by up to {most:share} in nine of ten. Repeat recordings (a "
    "folder for each side) to be sure.",
    "reason is a sentence: the median step is 5 % slower",
)
_TYPICAL, _MEAN = Text("diff-median", "median", "the median step"), Text("diff-mean", "mean", "the mean step")
_UNCHANGED = Text(
    "diff-unchanged",
    "The typical step is the same within {tolerance:share}: its change lies between {low:ns} and {high:ns} (95 %).",
)
_UNCLEAR_MEAN = Text(
    "diff-unclear-mean",
    "The typical step is the same within {tolerance:share}, but the mean may not be: its change lies between "
    "{low:ns} and {high:ns} (95 %), because some steps are much longer than others. Record more steps.",
)
_NOISE = Text(
    "diff-noise",
    "The change is smaller than the noise: the change of the typical step lies between {low:ns} and {high:ns} (95 "
    "%). Record more steps.",
)
_NOISE_OF_RECORDINGS = Text(
    "diff-noise-recordings",
    "The change is smaller than the noise between recordings: the change of the typical step lies between {low:ns} and "
    "{high:ns} (95 %). Make more recordings of each side.",
)
NOISE = frozenset({_NOISE.id, _NOISE_OF_RECORDINGS.id, _UNCLEAR_MEAN.id})
"""Reasons after which nothing is known to have changed."""
_FEW = Text(
    "diff-few",
    "{base:count} and {head:count} steps are too few to tell a change from noise; record at least {least:count} on "
    "each side, better 10 or more.",
)
_ONE = (
    Text(
        "diff-one-faster",
        "{factor:factor}x faster in one recording of each; the noise is unknown, because each has one step. Record at "
        "least {least:count} steps on each side, better 10 or more.",
    ),
    Text(
        "diff-one-slower",
        "{factor:factor}x as long in one recording of each; the noise is unknown, because each has one step. Record at "
        "least {least:count} steps on each side, better 10 or more.",
    ),
)
_INCOMPARABLE = Text(
    "diff-incomparable", "The two sides cannot be compared. {reason}", "reason is one of the comparability checks"
)
_CONTRADICTION = Text("diff-contradiction", "The median and the mean of the steps changed in opposite directions.")
_NO_STEPS = Text("diff-no-steps", "At least one side has no steps.")
_PRINTED = Text(
    "diff-printed",
    "The profiled time per step went from {base:ns} to {head:ns} ({share:share}). Printed tables contain sums and no "
    "single steps, so the noise is unknown; compare traces instead.",
)
_PRINTED_FAR = Text(
    "diff-printed-far",
    "The profiled time per step went from {base:ns} to {head:ns} ({share:share}), in sums over {base_steps:count} "
    "and {head_steps:count} steps. This is more than noise explains, although printed tables do not show the noise "
    "itself.",
)


def compare(base: Measurement, head: Measurement, machine: Noise | None = None) -> StepTime | None:
    """Compare the step times of both sides; None if a side has no single steps.

    Args:
        base: Before.
        head: After.
        machine: How much recordings of unchanged programs differ; None if unknown.
    """
    typical, every = (statistic(name, base, head, machine) for name in ("typical", "mean"))
    if typical is None or every is None:
        return None
    average = typical._replace(is_mean=True)
    knows_all = bool(base.all_runs and head.all_runs)
    one, two = map(_sample, _values(typical))
    all_one, all_two = map(_sample, _values(every))
    return StepTime(
        unit="capture" if noise.are_units(typical.base, typical.head) else "step",
        base=one,
        head=two,
        mean=_shift(average, _MEAN_LEVEL),
        median=_shift(typical, _TYPICAL_LEVEL),
        inflation=typical.inflation,
        all_base=all_one if knows_all else None,
        all_head=all_two if knows_all else None,
        all_mean=_shift(every, _MEAN_LEVEL) if knows_all else None,
    )


def statistic(name: str, base: Measurement, head: Measurement, machine: Noise | None) -> Statistic | None:
    """What is tested: `typical` is the typical step, `mean` the mean of all recorded steps.

    Returns:
        None if a side has no single steps.
    """
    is_of_all = name == "mean" and bool(base.all_runs and head.all_runs)
    one, two = ((side.all_runs if is_of_all else side.durations) for side in (base, head))
    if not one or not two:
        return None
    share = 0.0 if machine is None else machine.mean_share if is_of_all else machine.typical_share
    spread = None if machine is None else Spread(share, machine.freedom)
    are_runs = noise.are_units(one, two)
    inflation = 1.0 if are_runs else statistics.inflation(*one, *two)
    return Statistic(one, two, name != "typical", spread, inflation)


def _values(tested: Statistic) -> tuple[F64, F64]:
    """Means of captures where there are several: captures are independent, the steps of one are not."""
    of = noise.values if noise.are_units(tested.base, tested.head) else noise.steps
    return of(tested.base), of(tested.head)


def measured(tested: Statistic) -> tuple[float, float]:
    """The statistic of both sides in ns."""
    middle = np.mean if tested.is_mean else np.median
    one, two = (float(middle(side)) for side in _values(tested))
    return one, two


def _shift(tested: Statistic, level: float) -> Shift:
    base, head = measured(tested)
    found = noise.change(tested, level)
    is_of_steps = noise.source(tested) == "steps" or min(len(tested.base), len(tested.head)) >= noise.ENOUGH
    method = ("welch" if tested.is_mean else "rank-sum") if is_of_steps else "t"
    change = head - base
    interval, p = (found.interval, found.p) if found else (None, None)
    return Shift(change, change / base if base else None, interval, p, method)


def _sample(values: F64) -> Sample:
    return Sample(len(values), float(values.mean()), float(np.median(values)), float(values.min()), float(values.max()))


def judge(
    base: Measurement, head: Measurement, times: StepTime | None, comparability: Comparability, limit: float | None
) -> Verdict:
    """Decide on the verdict from step times.

    Args:
        base: Before.
        head: After.
        times: Step times, as `compare` returns them.
        comparability: Of the two sides.
        limit: What counts as a regression, as a share of the base; None for `TOLERANCE`.
    """
    if times is None:
        return _without_steps(base, head, comparability)
    if comparability.obstacle is not None:
        return _inconclusive(times, _INCOMPARABLE(reason=comparability.obstacle.message))
    if is_identical(base, head):
        return Verdict("no-change", "median", 0.0, 0.0, _IDENTICAL())
    if times.median.method != "t" and min(times.base.count, times.head.count) < LEAST_STEPS and not _is_clear(times):
        return _inconclusive(times, _too_few(times))
    verdict = _at_their_clocks(base, head, times, _tested(times, TOLERANCE if limit is None else limit))
    if verdict.outcome in ("faster", "slower") and _may_be_machine(base, head, times, verdict.change_share or 0.0):
        usual, most = _RECORDINGS_DIFFER
        return replace(verdict, reason=_MAY_BE_MACHINE(reason=verdict.reason, usual=usual, most=most))
    return verdict


def _at_their_clocks(base: Measurement, head: Measurement, times: StepTime, verdict: Verdict) -> Verdict:
    """The verdict; inconclusive where steps changed by no more than the other clock explains.

    Work that computes takes as much longer as the clock is lower; what memory or the host limits, less.
    """
    one, two, share = base.clock_mhz, head.clock_mhz, verdict.change_share
    if verdict.outcome not in ("faster", "slower") or not one or not two or share is None:
        return verdict
    expected = one / two - 1
    is_explained = expected * share > 0 and abs(expected) > SAME_CLOCK and abs(share) <= abs(expected) + TOLERANCE
    if not is_explained:
        return verdict
    text = _AT_CLOCKS[verdict.outcome == "slower"]
    return _inconclusive(times, text(reason=verdict.reason, clock=abs(two / one - 1), base=one, head=two))


def _is_clear(times: StepTime) -> bool:
    """Whether even a few steps differ by more than their noise: all known intervals lie on one side of 0."""
    known = [shift for shift in (times.median, times.mean) if shift.interval_ns is not None]
    return bool(known) and all(map(_excludes_zero, known)) and len({shift.change_ns > 0 for shift in known}) == 1


def _excludes_zero(shift: Shift) -> bool:
    return shift.interval_ns is not None and shift.interval_ns[0] * shift.interval_ns[1] > 0


def _too_few(times: StepTime) -> Message:
    base, head = times.base, times.head
    if base.count == head.count == 1:
        shorter, longer = sorted((base.mean_ns, head.mean_ns))
        if shorter and shorter != longer:
            return _ONE[head.mean_ns > base.mean_ns](factor=longer / shorter, least=LEAST_STEPS)
    return _FEW(base=base.count, head=head.count, least=LEAST_STEPS)


def _may_be_machine(base: Measurement, head: Measurement, times: StepTime, share: float) -> bool:
    """Whether a change is no greater than that of recordings of one program on a CPU, of which each side has one."""
    return is_one_each_on_cpu(base, head) and times.median.method != "t" and abs(share) <= _RECORDINGS_DIFFER[1]


def is_one_each_on_cpu(base: Measurement, head: Measurement) -> bool:
    """Whether each side is one recording on a CPU, where recordings differ by much more than their steps do."""
    return len(base.runs) == len(head.runs) == 1 and not (_has_gpu(base) or _has_gpu(head))


def _has_gpu(side: Measurement) -> bool:
    return bool(side.gpus) or any(step.parts.get("kernel") or step.parts.get("memcpy") for step in side.steps)


def _tested(times: StepTime, tolerance: float) -> Verdict:
    """Combine the results of both tests."""
    typical = _is_change(times.median)
    average = _is_change(times.mean)
    if typical and average and (times.median.change_ns > 0) != (times.mean.change_ns > 0):
        return _inconclusive(times, _CONTRADICTION())
    if typical:
        return _changed("median", times.median, _TYPICAL())
    is_median_within = _is_within(times.median, tolerance * times.base.median_ns)
    if not is_median_within and not average and _excludes_zero(times.median):
        return _changed("median", times.median, _TYPICAL())
    is_mean_within = _is_within(times.mean, tolerance * times.base.mean_ns)
    if average or (is_median_within and not is_mean_within and _excludes_zero(times.mean)):
        return _changed("mean", times.mean, _MEAN())
    return _unchanged(times, tolerance, is_median_within=is_median_within, is_mean_within=is_mean_within)


def _unchanged(times: StepTime, tolerance: float, *, is_median_within: bool, is_mean_within: bool) -> Verdict:
    """No change where both statistics are within the tolerance for sure; else nobody can tell."""
    low, high = times.median.interval_ns or (-np.inf, np.inf)
    if not is_median_within:
        text = _NOISE if times.unit == "step" and times.median.method != "t" else _NOISE_OF_RECORDINGS
        return _inconclusive(times, text(low=low, high=high))
    if not is_mean_within:
        low, high = times.mean.interval_ns or (-np.inf, np.inf)
        return _inconclusive(times, _UNCLEAR_MEAN(tolerance=tolerance, low=low, high=high))
    reason = _UNCHANGED(tolerance=tolerance, low=low, high=high)
    return Verdict("no-change", "median", times.median.change_ns, times.median.change_share, reason)


def _is_within(shift: Shift, reach: float) -> bool:
    """Whether neither the measured change nor its interval exceeds the limit, in any direction."""
    ends = (shift.change_ns, *(shift.interval_ns or (-np.inf, np.inf)))
    return max(map(abs, ends)) <= reach


def _without_steps(base: Measurement, head: Measurement, comparability: Comparability) -> Verdict:
    one, two = base.step_ns, head.step_ns
    if not one or two is None:
        return Verdict("inconclusive", None, None, None, _NO_STEPS())
    if one == two and base.parts == head.parts and base.rankings == head.rankings:
        return Verdict("no-change", "total", 0.0, 0.0, _IDENTICAL())
    if comparability.obstacle is not None:
        reason = _INCOMPARABLE(reason=comparability.obstacle.message)
        return Verdict("inconclusive", "total", two - one, two / one - 1, reason)
    share = two / one - 1
    steps = {"base_steps": base.side.steps, "head_steps": head.side.steps}
    if abs(share) < _PRINTED_CHANGE or min(steps.values()) < LEAST_STEPS:
        return Verdict("inconclusive", "total", two - one, share, _PRINTED(base=one, head=two, share=share))
    reason = _PRINTED_FAR(base=one, head=two, share=share, **steps)
    return Verdict("slower" if share > 0 else "faster", "total", two - one, share, reason)


def is_identical(base: Measurement, head: Measurement) -> bool:
    """Whether both sides are the same measurement."""
    typical, every = (
        [sorted(step for run in runs for step in run) for runs in sides]
        for sides in ((base.durations, head.durations), (base.all_runs, head.all_runs))
    )
    return typical[0] == typical[1] and (every[0] == every[1] or not all(every))


def _is_change(shift: Shift) -> bool:
    return _excludes_zero(shift) and abs(shift.change_share or 0.0) >= LEAST_CHANGE


def _changed(name: str, shift: Shift, word: Message) -> Verdict:
    text, outcome = (_SLOWER, "slower") if shift.change_ns > 0 else (_FASTER, "faster")
    reason = text(statistic=word, share=abs(shift.change_share or 0.0), p=shift.p)
    return Verdict(outcome, name, shift.change_ns, shift.change_share, reason)


def _inconclusive(times: StepTime, reason: Message) -> Verdict:
    return Verdict("inconclusive", "median", times.median.change_ns, times.median.change_share, reason)
