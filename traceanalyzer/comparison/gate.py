"""The answer to `--fail-on-regression`: the typical step and the mean of all recorded steps, held against their noise.

Most steps may be as before and every tenth four times as long; then the mean fails. The program may be slower and rare
long steps hide it in the mean; then the typical step fails. An alarm stops somebody's work, so each statistic is tested
at a tenth of the level of a verdict, single recordings by blocks of their steps, too. One recording a side on a CPU,
whose noise nobody knows, only fails where it is slower than recordings of one program ever were. Both tests together
raise at most one false alarm in a hundred pairs (docs/ci.md has the measurement).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from traceanalyzer.comparison import clocks, noise, verdict
from traceanalyzer.comparison.measurement import Measurement
from traceanalyzer.report.difference import Comparability, Verdict
from traceanalyzer.report.gate import Gate, GateTest, Noise
from traceanalyzer.report.message import Message, Text

_LEVEL = 0.01
"""Probability with which the interval of a statistic misses: half of it on the side of an alarm."""
STATISTICS = ("typical", "mean")
_UNKNOWN_NOISE = 3.0
"""Share by which one recording of a program on a CPU may be slower than another one (measured: of 2,048 pairs of 130
recordings of four programs on a busy machine, `benchmarks/gate_recordings.json`, none was four times as slow)."""

_PASSED = Text("diff-gate-passed-exactly", "No regression beyond {limit:exact_share}.")
_PASSED_BOTH = Text(
    "diff-gate-passed-both",
    "No regression beyond {limit:exact_share}, neither of the typical step nor of the mean of all recorded steps.",
)
_REGRESSION = Text(
    "diff-gate-regression-exactly", "A regression of {share:exact_share}, beyond the limit of {limit:exact_share}."
)
_ONE_FAILED = {
    "typical": Text(
        "diff-gate-typical-failed",
        "A regression of {share:exact_share} in the typical step, beyond the limit of {limit:exact_share}; the mean of "
        "all recorded steps changed by {other:+share}, which alone would be no alarm.",
    ),
    "mean": Text(
        "diff-gate-mean-failed",
        "A regression of {share:exact_share} in the mean of all recorded steps, beyond the limit of "
        "{limit:exact_share}; the typical step changed by {other:+share}, which alone would be no alarm.",
    ),
}
_BOTH_FAILED = Text(
    "diff-gate-both-failed",
    "A regression beyond the limit of {limit:exact_share}: {typical:exact_share} in the typical step, and "
    "{mean:exact_share} in the mean of all recorded steps.",
)
_UNDECIDED = Text(
    "diff-gate-inconclusive-exactly",
    "Inconclusive: a regression beyond {limit:exact_share} can be neither confirmed nor ruled out.",
)
_ONE_UNDECIDED = {
    "typical": Text(
        "diff-gate-typical-unclear",
        "Cannot tell whether the typical step is slower by more than {limit:exact_share}: its change lies between "
        "{low:+share} and {high:+share} (99 %).",
    ),
    "mean": Text(
        "diff-gate-mean-unclear",
        "Cannot tell whether the mean of all recorded steps is slower by more than {limit:exact_share}: its change "
        "lies between {low:+share} and {high:+share} (99 %), with {base:count} and {head:count} steps unlike the "
        "typical ones.",
    ),
}
_BOTH_UNDECIDED = Text(
    "diff-gate-both-unclear",
    "Cannot tell whether steps are slower by more than {limit:exact_share}: the typical step may be "
    "{typical:share} slower, and the mean of all recorded steps {mean:share}, at most (99 %).",
)
_FEW = Text(
    "diff-gate-few",
    "Cannot tell whether steps are slower by more than {limit:exact_share}: {base:count} and {head:count} are too few; "
    "record at least {least:count} on each side, better 10 or more.",
)
_ONE_RECORDING = Text(
    "diff-gate-one-recording",
    "Cannot tell whether steps are slower by more than {limit:exact_share}: each side is one recording on a CPU, and "
    "how much recordings differ there is unknown. Record several (a folder for each side), or an unchanged program "
    "(--noise).",
)
_CLOCKS = Text(
    "diff-gate-clocks",
    "Cannot tell whether steps are slower by more than {limit:exact_share}: the GPUs work at {base:number} and "
    "{head:number} MHz, and the clock may explain or hide it.",
)
_NO_STEPS = Text(
    "diff-gate-no-steps",
    "Cannot tell whether steps are slower by more than {limit:exact_share}: {name} does not hold its single steps "
    "(reports of old versions do not); compare the trace, or a report that this version writes of it.",
)


def judge(
    base: Measurement,
    head: Measurement,
    judged: Verdict,
    comparability: Comparability,
    limit: float,
    machine: Noise | None = None,
) -> Gate:
    """Decide whether steps became slower by more than a limit, or may have.

    Args:
        base: Before.
        head: After.
        judged: The verdict about them.
        comparability: Of both.
        limit: Largest share by which they may be slower.
        machine: How much recordings of unchanged programs differ; None if unknown.
    """
    if comparability.obstacle is not None:
        return Gate(limit, "inconclusive", _UNDECIDED(limit=limit))
    without = [side.side for side in (base, head) if side.side.format == "kineto" and not side.all_runs]
    if without:
        return Gate(limit, "inconclusive", _NO_STEPS(limit=limit, name=without[0].name))
    typical = verdict.statistic("typical", base, head, machine)
    if typical is None:
        return _of_sums(base, head, judged, limit)
    if verdict.is_identical(base, head):
        return Gate(limit, "passed", _PASSED(limit=limit))
    source = noise.source(typical)
    is_unknown = source == "steps" and verdict.is_one_each_on_cpu(base, head)
    least = max(limit, _UNKNOWN_NOISE) if is_unknown else limit
    tests = [_tested(name, base, head, least, machine) for name in STATISTICS]
    if is_unknown and not _named(tests, "regression"):
        return Gate(limit, "inconclusive", _ONE_RECORDING(limit=limit))
    outcome = next((word for word in ("regression", "inconclusive") if _named(tests, word)), "passed")
    return Gate(limit, outcome, _reason(tests, outcome, limit, base, head), tuple(tests), source)


def _of_sums(base: Measurement, head: Measurement, judged: Verdict, limit: float) -> Gate:
    """Of printed tables, which have no single steps."""
    share = judged.change_share or 0.0
    if judged.outcome == "slower" and share > limit:
        return Gate(limit, "regression", _REGRESSION(share=share, limit=limit))
    if judged.outcome != "inconclusive":
        return Gate(limit, "passed", _PASSED(limit=limit))
    return Gate(limit, "inconclusive", _UNDECIDED(limit=limit))


def _tested(name: str, base: Measurement, head: Measurement, limit: float, machine: Noise | None) -> GateTest:
    """Judge a statistic, which both sides have."""
    statistic = verdict.statistic(name, base, head, machine)
    found = noise.change(statistic, _LEVEL, by_blocks=True) if statistic else None
    before, after = verdict.measured(statistic) if statistic else (0.0, 0.0)
    share = after / before - 1 if before else 0.0
    if found is None or found.interval is None or not before:
        outcome = "passed" if statistic is not None and _is_shorter_throughout(statistic) else "inconclusive"
        return GateTest(name, outcome, share, None)
    known = found.interval[0] / before, found.interval[1] / before
    other = clocks.other_clocks(base, head)
    low, high = clocks.at_one_clock(known, other)
    at_least, at_most = clocks.at_one_clock((share, share), other)
    if low > 0 and at_least > max(limit, 0.0) and share >= verdict.LEAST_CHANGE:
        outcome = "regression"
    else:
        outcome = "passed" if max(at_most, high) <= limit else "inconclusive"
    return GateTest(name, outcome, share, (low, high))


def _is_shorter_throughout(statistic: noise.Statistic) -> bool:
    """Whether each step after is shorter than each one before, which chance would do in one of a hundred pairs."""
    before, after = noise.steps(statistic.base), noise.steps(statistic.head)
    return bool(after.max() < before.min()) and math.comb(len(before) + len(after), len(after)) >= 1 / _LEVEL


def _named(tests: Sequence[GateTest], outcome: str) -> list[GateTest]:
    return [test for test in tests if test.outcome == outcome]


def _reason(tests: Sequence[GateTest], outcome: str, limit: float, base: Measurement, head: Measurement) -> Message:
    """Which of the two failed, in a sentence."""
    failed = _named(tests, outcome)
    shares = {test.statistic: test.change_share for test in tests}
    if outcome == "passed":
        return _PASSED_BOTH(limit=limit)
    if outcome == "regression":
        if len(failed) == len(tests):
            return _BOTH_FAILED(limit=limit, **shares)
        other = next(test for test in tests if test not in failed)
        return _ONE_FAILED[failed[0].statistic](share=failed[0].change_share, limit=limit, other=other.change_share)
    return _why_unclear(failed, limit, base, head)


def _why_unclear(failed: Sequence[GateTest], limit: float, base: Measurement, head: Measurement) -> Message:
    known = {test.statistic: test.interval_share for test in failed if test.interval_share is not None}
    other = clocks.other_clocks(base, head)
    if other is not None:
        return _CLOCKS(limit=limit, base=other[0], head=other[1])
    if len(known) < len(failed):
        return _FEW(limit=limit, base=len(base.steps), head=len(head.steps), least=verdict.LEAST_STEPS)
    if len(known) > 1:
        return _BOTH_UNDECIDED(limit=limit, **{name: interval[1] for name, interval in known.items()})
    ((name, (low, high)),) = known.items()
    counts = [sum(step.is_judged for step in side.unlike) for side in (base, head)]
    return _ONE_UNDECIDED[name](limit=limit, low=low, high=high, **dict(zip(("base", "head"), counts, strict=True)))
