"""What a comparison must not claim: predictions that failed, fixes that were not made, shares beyond 100 %."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sides import KEYS, QUIET, bare, report, training

from tests.builders import A100, V100, TraceBuilder
from traceanalyzer.comparison import diff, explanation, findings, verdict
from traceanalyzer.comparison.measurement import Key, Ranked
from traceanalyzer.formats.difference import answer
from traceanalyzer.report.difference import Check, Comparability, Cost, FindingChange, Prediction, Verdict
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Report

EXAMPLES = 2000 if os.environ.get("TRACEANALYZER_FULL") == "1" else 50
SLOW_LOADER = [us + 40_000 for us in QUIET]


def predicted(low: float, high: float, saved: float, noise: float, outcome: str = "faster") -> Prediction | None:
    """The answer for a predicted saving, a measured saving and its uncertainty, all in ms."""
    base, head = bare([100e6] * 6), bare([(100 - saved) * 1e6] * 6)
    times = verdict.compare(base, head)
    assert times is not None
    interval = ((-saved - noise) * 1e6, (-saved + noise) * 1e6)
    times = msgspec.structs.replace(times, mean=msgspec.structs.replace(times.mean, interval_ns=interval))
    promise = FindingChange(
        "fixed", "some-rule", "high", Message("x", {}, "x"), "gpu", (low * 1e6, high * 1e6), None, None
    )
    said = Verdict(outcome, "mean", -saved * 1e6, -saved / 100, Message("x", {}, "x"))
    return findings.predict(base, head, (promise,), times, said)


@pytest.mark.parametrize(
    ("saved", "noise", "agreement"),
    [
        (12.1, 18.0, "cannot-tell"),
        (12.1, 5.0, "less"),
        (30.0, 20.0, "as-predicted"),
        (28.4, 1.0, "as-predicted"),
        (50.0, 10.0, "cannot-tell"),
        (60.0, 2.0, "more"),
    ],
)
def test_only_a_saving_inside_the_prediction_is_as_predicted(saved: float, noise: float, agreement: str) -> None:
    found = predicted(28.4, 45.5, saved, noise)
    assert found is not None
    assert found.agreement == agreement
    assert ("as predicted" in found.message.text) == (28.4 <= saved <= 45.5)


def test_nothing_is_said_of_a_prediction_under_an_inconclusive_verdict() -> None:
    assert predicted(28.4, 45.5, 12.1, 30.0, "inconclusive") is None


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.floats(0, 50), st.floats(0, 50), st.floats(1, 90), st.floats(0, 50))
def test_as_predicted_is_what_lies_within(one: float, two: float, saved: float, noise: float) -> None:
    low, high = sorted((one, two))
    found = predicted(low, high, saved, noise)
    assert found is None or (found.agreement == "as-predicted") == (
        found.predicted_ns[0] <= found.measured_ns <= found.predicted_ns[1]
    )


def other_program() -> Report:
    """Other operators of other shapes, other kernels."""
    trace = TraceBuilder(devices=(A100,), options=("record_shapes",))
    for number in range(6):
        start = number * 50_000
        trace.step(number + 1, start, 50_000)
        for position, name in enumerate(("aten::conv2d", "aten::relu", "aten::max_pool2d")):
            at = start + 100 + 1000 * position
            trace.op(name, at, 400, shapes=[[7, 3, 224, 224]])
            trace.launch_kernel(f"conv_kernel_{position}", at + 600, 300, at=at + 10)
    return report(trace)


@pytest.mark.parametrize("swapped", [False, True])
def test_programs_with_nothing_in_common_are_not_compared(swapped: bool) -> None:
    sides = (report(training(SLOW_LOADER, loader_us=41_000)), other_program())
    found = diff(*(reversed(sides) if swapped else sides))
    assert (found.verdict.outcome, found.verdict.reason.id) == ("inconclusive", "diff-incomparable")
    assert "different programs" in found.verdict.reason.text
    assert found.comparability.score == 0
    assert found.findings == ()
    assert found.prediction is None
    assert found.attribution is None
    assert (found.parts, found.rankings, found.gpus, found.memory) == ((), (), (), ())


def test_programs_without_shapes_are_told_apart_by_operators_and_kernels() -> None:
    one = training(options=(), operators={"aten::relu": 200}, kernels={"k_one": 5000})
    two = training([90_000] * 6, options=(), operators={"other::thing": 700}, kernels={"k_two": 9000})
    trace = diff(report(one), report(two)).comparability
    assert not trace.is_unrelated, "both call aten::mm"


def test_what_is_not_there_on_another_gpu_is_not_fixed() -> None:
    found = diff(report(training(SLOW_LOADER, loader_us=41_000)), report(training(device=V100)))
    assert found.comparability.obstacle is not None
    assert {change.status for change in found.findings} <= {"base-only", "head-only", "both"}
    assert "base-only" in {change.status for change in found.findings}
    assert all(change.measured_direct_ns is None for change in found.findings)


def test_a_part_beyond_the_whole_change_is_said_in_words() -> None:
    """The loader got 40 ms shorter and the kernels 10 ms longer: 133 % and -33 % are no shares."""
    slow = report(training(SLOW_LOADER, loader_us=41_000))
    longer = training([110_000 + us % 1000 for us in QUIET], kernels={"ampere_sgemm_128x64_nn": 15_000})
    found = diff(slow, report(longer))
    assert found.attribution is not None
    assert found.attribution.id == "diff-reason-whole"
    screen = answer(found).render("terminal")
    shares = [float(n) for n in re.findall(r"(-?[\d.]+) %", screen)]
    assert shares
    assert max(shares) <= 100


def test_noise_is_attributed_to_nothing() -> None:
    base = training([100_000, 118_000, 95_000, 112_000, 105_000, 116_000])
    head = training([104_000, 117_000, 97_000, 110_000, 109_000, 114_000])
    found = diff(report(base), report(head))
    assert found.verdict.reason.id == "diff-noise"
    assert found.attribution is None


def test_an_operator_whose_device_part_became_slower_is_not_faster() -> None:
    cost = Cost(1.0, 2e6, 9e6), Cost(1.0, 3e6, 1e6)
    key = Key("aten::copy_")
    sides = [replace(bare([1e8] * 6), rankings={k: Ranked({key: c}) for k in KEYS}) for c in cost]
    (row,) = explanation.compare_rankings(*sides)[0].rows
    assert row.status == "host-faster"
    (row,) = explanation.compare_rankings(*reversed(sides))[0].rows
    assert row.status == "host-slower"


@settings(max_examples=EXAMPLES, deadline=None)
@given(*[st.floats(0, 1e7)] * 4)
def test_no_row_is_faster_that_became_slower_anywhere(a: float, b: float, c: float, d: float) -> None:
    key = Key("aten::copy_")
    sides = [
        replace(bare([1e8] * 6), rankings={k: Ranked({key: Cost(1.0, device, host)}) for k in KEYS})
        for device, host in ((a, b), (c, d))
    ]
    for row in explanation.compare_rankings(*sides)[0].rows:
        changes = (row.device_change_ns or 0.0, row.host_change_ns or 0.0)
        assert row.status != "faster" or max(changes) <= 0
        assert row.status != "slower" or min(changes) >= 0


def test_differences_of_shares_are_points() -> None:
    found = diff(report(training()), report(training(kernels={"ampere_sgemm_128x64_nn": 50_000})))
    screen = answer(found).render("terminal")
    (line,) = [line for line in screen.splitlines() if "GPU 0: kernels run" in line]
    assert line.endswith("points")
    assert line.count("%") == 2, "the two shares themselves"


def test_tables_of_other_data_are_not_compared() -> None:
    """Printed tables have no steps to test, but the same conditions."""
    other = verdict.judge(
        replace(bare(), total_ns=1e8), replace(bare(), total_ns=2e8), None,
        Comparability(0.0, (Check("sizes", 0.0, True, Message("x", {}, "other data")),)), None,
    )  # fmt: skip
    assert (other.outcome, other.reason.id) == ("inconclusive", "diff-incomparable")
