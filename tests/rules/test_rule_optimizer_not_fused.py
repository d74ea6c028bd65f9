"""Tests of the rule `optimizer-not-fused`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires as inference
from tests.rules.situations.optimizer_not_fused import (
    STEP,
    fires,
    fires_in_a_table,
    fires_on_a_cpu,
    fires_on_few_huge_parameters_on_a_cpu,
    fires_on_large_parameters_on_a_cpu,
    on_a_cpu,
    training,
)
from traceanalyzer.structure.recording import Recording

RULE = "optimizer-not-fused"
CALL = 200 * 26_000 + 3_000
"""20 us before, 5 us of the launch and 1 us after each, and 3 us of the range."""


def test_half_to_four_fifths_of_the_host_time() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * CALL, 0.8 * CALL))
    # the GPU waits for each launch; for the 7 us of host time after the last one nothing waits
    point = finding.saving.point_ns_per_step
    assert point == pytest.approx(0.65 * (CALL - 7_000), rel=0.001)
    low, high = finding.saving.wall_ns_per_step
    assert low == pytest.approx(0.5 * (CALL - 7_000), rel=0.02), "without residuals launches take their usual time"
    assert high == pytest.approx(0.8 * (CALL - 7_000), rel=0.001)


def test_is_latent_while_the_gpu_still_works_on_the_backward_pass() -> None:
    from tests.builders.training import Training  # noqa: PLC0415 - of this situation only
    from tests.rules.situations.optimizer_not_fused import ADD  # noqa: PLC0415

    loop = Training()
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward(), dur=10_000)
            loop.step(200, operator="aten::add_", kernel=ADD)
    (finding,) = findings(loop.finish(), RULE)
    assert finding.latent
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(0.8 * CALL)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Optimizer.step#SGD.step", "torch.optim.SGD(parameters, **settings, fused=True)  # settings: as before"),
        (
            "Optimizer.step#RMSprop.step",
            "torch.optim.RMSprop(parameters, **settings, foreach=True)  # settings: as before",
        ),
    ],
)
def test_the_code_keeps_the_optimizer(name: str, code: str) -> None:
    (finding,) = findings(training(200, name=name), RULE)
    assert finding.code == code


def test_a_table_has_calls_of_arithmetic() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.confidence == "C"
    assert finding.evidence[0].observed == 300
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((10_000_000, 16_000_000))


def test_without_an_optimizer_nobody_can_tell() -> None:
    assert "optimizer" in (skipped(inference(), RULE) or "")


def test_edge_launches() -> None:
    assert findings(training(99), RULE) == []
    assert findings(training(100), RULE)


def test_edge_launches_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"launches": 301}) == []
    assert findings(fires_in_a_table(), RULE, {"launches": 300})


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[1].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})


def test_idle_time_of_a_step_that_is_left_out_is_not_saved_in_the_others() -> None:
    """The first of five steps makes 2000 launches instead of 200, such as once for each parameter that it creates."""
    from tests.builders.training import Training  # noqa: PLC0415 - of this situation only
    from tests.rules.situations.optimizer_not_fused import ADD  # noqa: PLC0415

    loop = Training()
    for number in range(5):
        with loop.iteration():
            loop.backward(loop.forward())
            loop.host.wait(loop.stream)
            loop.step(200 if number else 2000, operator="aten::add_", kernel=ADD)
    found = report(loop.finish(), RULE)
    recording = found.result("recording", Recording)
    assert recording is not None
    assert recording.typical is not None
    assert recording.typical.steps == 4
    (finding,) = found.findings
    assert finding.saving is not None
    own = recording.typical.resources
    idle = own.step_ns - (own.gpu_ns or 0)
    assert finding.saving.direct_ns_per_step[1] > idle, "over all steps 560 launches per step"
    assert finding.saving.wall_ns_per_step[1] <= idle


def test_on_a_cpu_calls_cost_what_launches_cost_elsewhere() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert [entry.observed for entry in finding.evidence[:1]] == [200]
    assert finding.saving is not None
    host = 200 * 9_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.7 * host, host))
    assert finding.code == "torch.optim.AdamW(parameters, **settings, fused=True)  # settings: as before"
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text + finding.not_when.text


def test_on_a_cpu_long_calls_are_bound_by_memory() -> None:
    (finding,) = findings(fires_on_large_parameters_on_a_cpu(), RULE)
    assert finding.saving is not None
    host = 100 * 101_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * host, 0.8 * host))


def test_on_a_cpu_few_calls_count_if_they_are_very_long() -> None:
    (finding,) = findings(fires_on_few_huge_parameters_on_a_cpu(), RULE)
    assert finding.saving is not None
    host = 21 * 1_001_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.7 * host, 0.92 * host))
    assert [entry.unit for entry in finding.evidence] == ["share"], "21 calls are no evidence of a loop"


@pytest.mark.parametrize(("operator", "saved"), [("aten::mul_", (0.6, 0.9)), ("aten::add_", (0.35, 0.6))])
def test_on_a_cpu_sgd_gains_more_with_momentum(operator: str, saved: tuple[float, float]) -> None:
    (finding,) = findings(on_a_cpu(200, name=STEP, operator=operator), RULE)
    assert finding.saving is not None
    host = 200 * 9_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((saved[0] * host, saved[1] * host))
