"""What updates cost on a CPU, and what fused ones save there (`optimizer-not-fused`)."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.optimizer.test_optimizer_not_fused import (
    RULE,
    STEP,
    fires_on_a_cpu,
    fires_on_an_optimizer_for_each_tensor_on_a_cpu,
    fires_on_few_huge_parameters_on_a_cpu,
    fires_on_few_parameters_that_take_much_of_a_step_on_a_cpu,
    fires_on_large_parameters_on_a_cpu,
    fires_on_sixteen_parameters_on_a_cpu,
    fires_on_two_optimizers_on_a_cpu,
    on_a_cpu,
    standing_still,
)


def test_on_a_cpu_calls_cost_what_launches_cost_elsewhere() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert [entry.observed for entry in finding.evidence[:1]] == [200]
    assert finding.saving is not None
    host = 200 * 9_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.72 * host, 0.97 * host))
    assert finding.code == "torch.optim.AdamW(parameters, **settings, fused=True)  # settings: as before"
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text + finding.not_when.text


@pytest.mark.parametrize("shapes", [False, True])
def test_on_a_cpu_only_the_updates_are_saved_and_not_the_stalls_between_and_within_them(*, shapes: bool) -> None:
    trace = standing_still([(20, False), (30, True), (20, False), (40, True)], shapes=shapes)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    host = 200 * 9_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.72 * host, 0.97 * host), rel=0.01)
    assert "1.8 ms" in finding.summary.text


def test_on_a_cpu_a_single_update_with_a_stall_shows_what_updates_take() -> None:
    (finding,) = findings(standing_still([(20, False)]), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] < 2_000_000


def test_on_a_cpu_an_optimizer_for_each_tensor_is_a_loop_over_parameters() -> None:
    (finding,) = findings(fires_on_an_optimizer_for_each_tensor_on_a_cpu(), RULE)
    assert [entry.observed for entry in finding.evidence[:1]] == [200]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] >= 200 * 9_000
    assert len(findings(fires_on_two_optimizers_on_a_cpu(), RULE)) == 1, "of one class, by what both take"


def test_on_a_cpu_long_calls_are_bound_by_memory() -> None:
    (finding,) = findings(fires_on_large_parameters_on_a_cpu(), RULE)
    assert finding.saving is not None
    host = 100 * 101_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * host, 0.8 * host))


def test_on_a_cpu_long_calls_need_not_be_many() -> None:
    (finding,) = findings(fires_on_sixteen_parameters_on_a_cpu(), RULE)
    assert finding.saving is not None
    host = 64 * 90_000 + 3_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.4 * host, 0.7 * host))
    assert finding.code == "torch.optim.Adagrad(parameters, **settings, fused=True)  # settings: as before"
    assert not findings(on_a_cpu(31, each=89, name="Optimizer.step#Adagrad.step"), RULE), "fewer take little time"


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


def test_on_a_cpu_an_update_that_takes_much_counts_however_few_its_calls_are() -> None:
    (finding,) = findings(fires_on_few_parameters_that_take_much_of_a_step_on_a_cpu(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert low / high == pytest.approx(0.5 / 0.97)
    assert [entry.threshold for entry in finding.evidence] == [0.02], "the number of calls decided nothing"
