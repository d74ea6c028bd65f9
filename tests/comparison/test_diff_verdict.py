"""The verdict about step times, and the result of `--fail-on-regression`."""

from __future__ import annotations

import os

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sides import QUIET, bare, report, training

from traceanalyzer.comparison import comparability, diff, gate, verdict
from traceanalyzer.report.difference import Verdict
from traceanalyzer.report.gate import Gate

EXAMPLES = 5000 if os.environ.get("TRACEANALYZER_FULL") == "1" else 200
NS = 1e6
STEPS = [100 * NS, 101 * NS, 99 * NS, 100.5 * NS, 99.5 * NS, 100.2 * NS]


def judged(base: list[float], head: list[float], limit: float | None = None) -> Verdict:
    one, two = bare(base), bare(head)
    return verdict.judge(one, two, verdict.compare(one, two), comparability.check(one, two), limit)


def gated(base: list[float], head: list[float], limit: float) -> Gate:
    """Of one recording each on a GPU."""
    one, two = bare(base, has_gpu=True), bare(head, has_gpu=True)
    times, conditions = verdict.compare(one, two), comparability.check(one, two)
    return gate.judge(one, two, verdict.judge(one, two, times, conditions, limit), conditions, limit)


def times(factor: float) -> list[float]:
    return [factor * step for step in STEPS]


@pytest.mark.parametrize(("factor", "outcome"), [(1.2, "slower"), (0.8, "faster")])
def test_a_clear_change_has_a_direction_a_size_and_a_statistic(factor: float, outcome: str) -> None:
    found = judged(STEPS, times(factor))
    assert (found.outcome, found.statistic) == (outcome, "median")
    assert found.change_share == pytest.approx(factor - 1, abs=1e-9)


@pytest.mark.parametrize(("factor", "reason"), [(1.2, "diff-may-be-machine"), (1.5, "diff-test-slower")])
def test_a_change_of_one_recording_each_on_a_cpu_may_be_the_machine(factor: float, reason: str) -> None:
    """Recordings of one program differ by up to 40 % in nine of ten pairs."""
    found = judged(STEPS, times(factor))
    assert (found.outcome, found.reason.id) == ("slower", reason)


def test_several_recordings_and_those_of_a_gpu_have_no_such_doubt() -> None:
    one, two = bare(STEPS, STEPS), bare(times(1.2), times(1.2))
    found = verdict.judge(one, two, verdict.compare(one, two), comparability.check(one, two), None)
    assert found.reason.id == "diff-test-slower"
    slower = tuple(round(1.2 * step) for step in QUIET)
    assert diff(report(training()), report(training(slower))).verdict.reason.id == "diff-test-slower"


@pytest.mark.parametrize(
    ("count", "factor", "reason"),
    [(1, 2, "diff-one-slower"), (1, 0.5, "diff-one-faster"), (2, 1.02, "diff-few"), (4, 1.005, "diff-few")],
)
def test_few_steps_are_inconclusive(count: int, factor: float, reason: str) -> None:
    found = judged(STEPS[:count], times(factor)[:count])
    assert (found.outcome, found.reason.id) == ("inconclusive", reason)
    assert found.change_share is not None, "what was measured is told all the same"


def test_one_step_a_side_says_how_much_and_that_the_noise_is_unknown() -> None:
    text = judged(STEPS[:1], times(1 / 2.8)[:1]).reason.text
    assert text.startswith("2.8x faster in one recording of each; the noise is unknown")
    assert gated(STEPS[:1], times(1 / 2.8)[:1], 0.03).outcome == "inconclusive"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_steps_whose_intervals_exclude_zero_are_slower(count: int) -> None:
    assert judged(STEPS[:count], times(2)[:count]).outcome == "slower"


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.floats(9e7, 11e7), min_size=2, max_size=12), st.lists(st.floats(9e7, 11e7), min_size=2, max_size=12))
def test_a_change_whose_intervals_exclude_zero_is_not_inconclusive(base: list[float], head: list[float]) -> None:
    found = verdict.compare(bare(base), bare(head))
    assert found is not None
    intervals = [shift.interval_ns for shift in (found.median, found.mean) if shift.interval_ns is not None]
    if all(low > 0 for low, _ in intervals) or all(high < 0 for _, high in intervals):
        assert judged(base, head).outcome != "inconclusive"


def test_no_probability_is_zero() -> None:
    assert "(p < 0.001)" in judged(STEPS * 4, times(2) * 4).reason.text
    assert "(p = 0.029)" in judged(STEPS[:4], times(2)[:4]).reason.text


def test_the_same_measurement_is_no_change_even_of_one_step() -> None:
    assert judged(STEPS, STEPS).outcome == "no-change"
    assert judged(STEPS[:1], STEPS[:1]).outcome == "no-change"


def test_noise_that_is_larger_than_the_change_is_inconclusive() -> None:
    found = judged([80 * NS, 120 * NS, 95 * NS, 105 * NS, 130 * NS], [85 * NS, 125 * NS, 90 * NS, 112 * NS, 131 * NS])
    assert (found.outcome, found.reason.id) == ("inconclusive", "diff-noise")


def test_a_certain_change_of_less_than_one_percent_is_none() -> None:
    assert judged(STEPS * 3, [1.008 * step for step in STEPS * 3]).outcome == "no-change"


def test_one_outlier_hides_no_change() -> None:
    head = times(1.2)
    head[3] *= 20
    assert judged(STEPS, head).outcome == "slower"
    assert judged(STEPS, [*STEPS[:-1], 20 * STEPS[-1]]).outcome != "slower"


def test_median_and_mean_that_contradict_each_other_are_inconclusive() -> None:
    """Most steps became faster, and some so slow that the mean became slower for certain."""
    jitter = [(i * 37 % 60) * 1000 for i in range(60)]  # no neighbours are alike
    base = [100 * NS + noise for noise in jitter]
    head = [(90 if i * 37 % 60 > 20 else 200) * NS + noise for i, noise in enumerate(jitter)]
    assert judged(base, head).reason.id == "diff-contradiction"


def test_no_steps_are_inconclusive() -> None:
    assert judged([], STEPS).outcome == "inconclusive"


def test_captures_are_the_unit_where_there_are_five_a_side() -> None:
    """The steps of a capture are alike: ten captures are ten values, not sixty."""
    one, two = bare(*([step] * 6 for step in STEPS)), bare(*([step] * 6 for step in times(1.2)))
    found = verdict.compare(one, two)
    assert found is not None
    assert (found.unit, found.base.count, found.inflation) == ("capture", 6, 1.0)


@pytest.mark.parametrize(
    ("factor", "limit", "outcome"),
    [(1.2, 0.03, "regression"), (1.2, 0.25, "passed"), (0.8, 0.03, "passed"), (1.001, 0.03, "passed")],
)
def test_the_gate(factor: float, limit: float, outcome: str) -> None:
    assert gated(STEPS, times(factor), limit).outcome == outcome


def test_the_gate_is_inconclusive_where_noise_leaves_room_for_a_regression() -> None:
    assert gated(STEPS[:4], STEPS[:4][::-1][:3], 0.03).outcome == "inconclusive"
    noisy = [80 * NS, 120 * NS, 95 * NS, 105 * NS, 130 * NS]
    assert gated(noisy, [value * 1.01 for value in noisy], 0.03).outcome == "inconclusive"


def test_noise_that_leaves_no_room_for_a_regression_passes_the_gate() -> None:
    noisy = [80 * NS, 120 * NS, 95 * NS, 105 * NS, 130 * NS]
    found = gated(noisy, [value * 1.01 for value in noisy], 0.9)
    assert found.outcome == "passed"


def test_a_trace_with_itself_has_nothing_to_tell() -> None:
    same = report(training())
    found = diff(same, same, limit=0.0)
    assert found.verdict.outcome == "no-change"
    assert found.gate is not None
    assert found.gate.outcome == "passed"
    assert found.comparability.score == 1
    assert not any(ranking.rows for ranking in found.rankings)
    assert {finding.status for finding in found.findings} <= {"kept"}
    assert all(part.change_ns == 0 for part in found.parts)
    assert found.attribution is None


def test_steps_of_traces_are_compared_by_their_durations() -> None:
    found = diff(report(training()), report(training([round(1.1 * us) for us in QUIET])))
    assert found.step_time is not None
    assert found.step_time.base.mean_ns == pytest.approx(sum(QUIET) / len(QUIET) * 1000)
    assert found.verdict.outcome == "slower"


def test_two_outliers_that_may_be_a_slower_mean_do_not_pass_the_gate() -> None:
    """19 of 20 steps are the same, so the median is; the mean is 30 % slower, and nothing says that this is chance."""
    base = [(100 + (i * 7 % 20) / 100) * NS for i in range(20)]
    head = [*base[:18], 401 * NS, 402 * NS]
    found = judged(base, head, 0.03)
    assert (found.outcome, found.reason.id) == ("inconclusive", "diff-unclear-mean")
    assert gated(base, head, 0.03).outcome == "inconclusive"


def test_a_faster_median_does_not_pass_the_gate_while_the_mean_may_be_slower() -> None:
    base = [(100 + (i * 7 % 20) / 100) * NS for i in range(20)]
    head = [*(0.9 * step for step in base[:18]), 500 * NS, 510 * NS]
    assert judged(base, head, 0.03).outcome == "faster"
    assert gated(base, head, 0.03).outcome == "inconclusive"


def test_a_slower_median_below_the_limit_is_no_pass_for_a_mean_beyond_it() -> None:
    base = [(100 + (i * 37 % 60) / 1000) * NS for i in range(60)]
    head = [(102 if i * 37 % 60 > 20 else 300) * NS + i * 37 % 60 * 1000 for i in range(60)]
    found = gated(base, head, 0.03)
    assert found.outcome == "regression"
    assert found.reason.params["share"] > 0.3, "the larger of the two is told"


_STEP_TIMES = st.lists(st.floats(1e6, 1e9), min_size=1, max_size=30)


@settings(max_examples=EXAMPLES, deadline=None)
@given(base=_STEP_TIMES, head=_STEP_TIMES, limit=st.floats(0, 2))
def test_the_gate_never_passes_a_slower_mean_or_median_that_is_not_excluded(
    base: list[float], head: list[float], limit: float
) -> None:
    one, two = bare(base), bare(head)
    found = verdict.compare(one, two)
    assert found is not None
    passed = gated(base, head, limit).outcome == "passed"
    for shift, before in ((found.median, found.base.median_ns), (found.mean, found.base.mean_ns)):
        high = shift.interval_ns[1] if shift.interval_ns else float("inf")
        may_be_slower = shift.change_ns > limit * before and high > limit * before
        assert not (passed and may_be_slower)


@settings(max_examples=EXAMPLES, deadline=None)
@given(steps=st.lists(st.floats(0.99, 1.01), min_size=8, max_size=30), slow=st.floats(1.5, 10), data=st.data())
def test_the_gate_never_passes_the_same_steps_with_outliers_in_front(
    steps: list[float], slow: float, data: st.DataObject
) -> None:
    """The median stays, the mean goes: what a gate on the median alone would let through."""
    base = [step * 100 * NS for step in steps]
    count = data.draw(st.integers(1, max(1, len(base) // 5)))
    head = [*(slow * step for step in base[:count]), *base[count:]]
    assume(sum(head) / sum(base) - 1 > 0.03)
    assert gated(base, head, 0.03).outcome != "passed"
