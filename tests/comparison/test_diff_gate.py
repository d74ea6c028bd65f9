"""What `--fail-on-regression` judges: the typical step and the mean of all recorded steps, each against its noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from sides import QUIET, bare, report, training

from benchmarks import gate as measured
from benchmarks import gate_pairs
from traceanalyzer.comparison import comparability, diff, gate, noise, verdict
from traceanalyzer.report.gate import Gate, Noise
from traceanalyzer.report.model import Report

TWENTY = [round(100_000 + 37 * number % 200) for number in range(20)]
WITH_LONG = [4 * us if number in (7, 13) else us for number, us in enumerate(TWENTY)]


def gated(
    base: Sequence[Sequence[float]],
    head: Sequence[Sequence[float]],
    machine: Noise | None = None,
    *,
    has_gpu: bool = False,
) -> Gate:
    """The answer about recordings of which every step is typical."""
    one, two = (bare(*runs, has_gpu=has_gpu) for runs in (base, head))
    conditions = comparability.check(one, two)
    judged = verdict.judge(one, two, verdict.compare(one, two, machine), conditions, 0.03)
    return gate.judge(one, two, judged, conditions, 0.03, machine)


def recordings(means: Sequence[float]) -> list[list[float]]:
    return [[1e6 * mean * (1 + 0.001 * (7 * step % 5)) for step in range(6)] for mean in means]


def test_two_of_twenty_steps_that_take_four_times_as_long_do_not_pass() -> None:
    """The typical step is as before; the mean of all steps is 30 % longer, and two steps may be chance."""
    found = diff(report(training(TWENTY)), report(training(WITH_LONG)), limit=0.03)
    assert found.verdict.outcome == "no-change"
    assert found.gate is not None
    assert (found.gate.outcome, found.gate.reason.id) == ("inconclusive", "diff-gate-mean-unclear")
    assert {test.statistic: test.outcome for test in found.gate.tests} == {"typical": "passed", "mean": "inconclusive"}
    assert found.gate.tests[1].change_share == pytest.approx(0.3, abs=0.01)
    (row,) = found.unusual
    assert (row.base_count, row.head_count, row.is_judged) == (0, 2, True)
    assert row.head_ns == pytest.approx(4e8, rel=0.01)


def test_a_mean_that_is_longer_for_certain_fails_and_is_named() -> None:
    """Every fifth of 100 steps takes four times as long."""
    base = [100_000 + 37 * number % 200 for number in range(100)]
    head = [4 * us if number % 5 == 2 else us for number, us in enumerate(base)]
    found = diff(report(training(base)), report(training(head)), limit=0.03).gate
    assert found is not None
    assert (found.outcome, found.reason.id) == ("regression", "diff-gate-mean-failed")
    assert "in the mean of all recorded steps" in found.reason.text


def test_a_slower_typical_step_is_named_where_long_steps_hide_the_mean() -> None:
    base = [4 * us if number in (3, 11) else us for number, us in enumerate(TWENTY)]
    head = [round(1.1 * us) for us in base]
    found = diff(report(training(base)), report(training(head)), limit=0.03).gate
    assert found is not None
    assert (found.outcome, found.reason.id) == ("regression", "diff-gate-typical-failed")


def test_start_up_and_cut_steps_are_not_judged() -> None:
    """A first step that loads code is no regression of the mean."""
    trace = training([300_000, *TWENTY])
    trace.launch("cuModuleLoadData", 20_000, 190_000)
    found = diff(report(training(TWENTY)), report(trace), limit=0.03)
    assert [(row.reason, row.is_judged) for row in found.unusual] == [("loading", False)]
    assert found.gate is not None
    assert found.gate.outcome == "passed"


@pytest.mark.parametrize("after", [80, 100.5, 180, 380])
def test_one_recording_a_side_on_a_cpu_tells_little(after: float) -> None:
    found = gated(recordings([100]), recordings([after]))
    assert (found.outcome, found.reason.id) == ("inconclusive", "diff-gate-one-recording")


def test_one_recording_a_side_on_a_cpu_tells_what_no_noise_explains() -> None:
    assert gated(recordings([100]), recordings([450])).outcome == "regression"


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ((110, 112, 115, 111), "passed"),
        ((110, 112, 149, 111), "inconclusive"),
        ((110, 112), "inconclusive"),
    ],
)
def test_few_steps_that_are_all_shorter_are_no_regression(after: tuple[int, ...], outcome: str) -> None:
    """Too few for a rank test: of 5 and 4 steps all are in this order in one of 126 pairs, of 5 and 2 in one of 21."""
    before = [1e6 * ms for ms in (150, 148, 155, 160, 149.5)]
    assert gated([before], [[1e6 * ms for ms in after]], has_gpu=True).outcome == outcome


def test_a_drift_within_recordings_is_no_regression() -> None:
    """Steps of both sides grow by 10 %; the second side went on where the first one ended."""
    base, head = ([1e8 * (start + 0.005 * number) for number in range(20)] for start in (1.0, 1.1))
    assert gated([base], [head], has_gpu=True).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        ((100, 101, 99), (120, 121, 119), "regression"),
        ((100, 110, 90), (105, 115, 95), "inconclusive"),
        ((100, 100.2, 99.8), (99, 99.2, 98.8), "passed"),
        ((100, 101, 99, 100.5, 99.5, 100.2), (120, 121, 119, 120.5, 119.5, 120.2), "regression"),
    ],
)
def test_the_recording_is_the_unit_of_noise(base: Sequence[float], head: Sequence[float], outcome: str) -> None:
    """The steps of each are alike to a few thousandths, so that they alone would see any of these changes."""
    found = gated(recordings(base), recordings(head))
    assert (found.outcome, found.noise_from) == (outcome, "recordings")


def test_noise_of_the_machine_stands_for_recordings_that_were_not_made() -> None:
    quiet = noise.of_programs("unchanged", [bare(*recordings([100, 101, 99, 100.5, 99.5, 100.2]))])
    assert quiet.typical_share == pytest.approx(np.std(np.log([100, 101, 99, 100.5, 99.5, 100.2]), ddof=1), rel=1e-3)
    assert (quiet.programs, quiet.recordings, quiet.freedom) == (1, 6, 5)
    slower = gated(recordings([100]), recordings([120]), quiet)
    assert (slower.outcome, slower.noise_from) == ("regression", "machine")
    loud = noise.of_programs("unchanged", [bare(*recordings([100, 140, 90, 120, 80, 110]))])
    assert gated(recordings([100]), recordings([120]), loud).outcome == "inconclusive"


def test_recordings_that_vary_more_than_the_machine_did_count_alone() -> None:
    quiet = Noise("unchanged", 1, 100, 0.001, 0.001, 99)
    found = gated(recordings([100, 130, 90]), recordings([110, 140, 100]), quiet)
    assert found.outcome == "inconclusive"


def without_steps(one: Report) -> Report:
    """As old versions wrote it: sums over steps, and no single ones."""
    kept = {key: value for key, value in one.analyses.items() if key not in ("recording", "step_breakdown")}
    return replace(one, analyses=kept)


def test_a_report_without_single_steps_is_named_in_one_sentence() -> None:
    one = report(training(QUIET))
    found = diff(without_steps(one), report(training([round(1.2 * us) for us in QUIET])), limit=0.03).gate
    assert found is not None
    assert (found.outcome, found.reason.id) == ("inconclusive", "diff-gate-no-steps")
    assert "does not hold its single steps" in found.reason.text


def test_the_upper_end_of_an_interval() -> None:
    """Of no event among n the end is 1 - 0.05 ** (1 / n); the others are from tables of Clopper and Pearson."""
    assert measured.upper_end(0, 200) == pytest.approx(1 - 0.05 ** (1 / 200), abs=1e-5)
    assert measured.upper_end(10, 2000) == pytest.approx(0.00846, abs=1e-5)


def test_a_sample_of_the_pairs_of_the_table() -> None:
    """The whole table is `python -m benchmarks.gate`; here a few of each row."""
    measured_pairs = gate_pairs.synthetic(24, 1, np.random.default_rng(5))
    outcomes = [measured.outcome(pair, 0.0) for pair in measured_pairs]
    assert outcomes.count("regression") <= 2
    quiet = list(gate_pairs.quiet(5, np.random.default_rng(5)))
    assert [measured.outcome(pair, 0.1) for pair in quiet] == ["regression"] * 5
    programs = gate_pairs.kept()
    recorded = list(gate_pairs.of_recordings(programs, 4, 5, np.random.default_rng(5)))
    assert {measured.outcome(pair, 0.0) for pair in recorded} <= {"passed", "inconclusive"}


def test_an_identical_typical_step_does_not_hide_other_steps() -> None:
    """All typical steps are equal to the nanosecond, and two further ones are long."""
    one, two = (
        bare(list(range(1_000_000, 1_000_020)), has_gpu=True),
        bare(list(range(1_000_000, 1_000_020)), has_gpu=True),
    )
    longer = dataclasses.replace(two, all_runs=((*two.all_runs[0], 4e6, 4e6),))
    conditions = comparability.check(one, longer)
    judged = verdict.judge(one, longer, verdict.compare(one, longer), conditions, 0.03)
    assert gate.judge(one, longer, judged, conditions, 0.03).outcome == "inconclusive"
