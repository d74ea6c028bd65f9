"""Tests of the rule `zero-grad-fill`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires as inference
from tests.rules.situations.zero_grad_fill import fires, fires_in_a_table, on_a_cpu, training

RULE = "zero-grad-fill"
CALL = 2_903_000
"""100 fills of 2 + 20 + 5 + 1 + 1 us, and 3 us of the range."""


def test_scores_what_the_gpu_waits_not_what_it_fills() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * CALL, CALL))
    low, high = finding.saving.wall_ns_per_step
    # the GPU waits for each launch until only its own time is left: 100 fills of 2 us, each 0.9 us after the one before
    assert high == pytest.approx(CALL - 100 * 2_900, rel=0.03)
    assert low == pytest.approx(0.8 * CALL, rel=0.03), "without residuals launches take their usual time"
    assert finding.summary.params["fills"] == 100


def test_costs_nothing_while_the_gpu_is_busy() -> None:
    (finding,) = findings(hidden(), RULE)
    assert finding.latent
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] < 0.01 * report(hidden()).headlines[0].resources.step_ns


def hidden():  # type: ignore[no-untyped-def]
    """The fills follow a long forward pass that still runs when the last of them is launched."""
    from tests.builders.training import Training  # noqa: PLC0415 - of this situation only

    loop = Training()
    for _ in range(3):
        with loop.iteration():
            numbers = loop.forward(dur=5000)
            loop.zero_grad(30)
            loop.backward(numbers)
            loop.step()
    return loop.finish()


def test_a_table_tells_the_host_time_of_what_is_called() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((8_000_000, 10_000_000))


def test_without_an_optimizer_nobody_can_tell() -> None:
    assert "optimizer" in (skipped(inference(), RULE) or "")


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})


def test_edge_host_share_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.1}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.0999})


def test_what_is_dropped_is_not_filled() -> None:
    assert findings(training(0), RULE, {"host_share": 0.0}) == []


def test_on_a_cpu_adding_to_the_zeros_goes_away_as_well() -> None:
    (finding,) = findings(on_a_cpu(100), RULE)
    (without,) = findings(on_a_cpu(100, adds=False), RULE)
    assert finding.saving is not None
    assert without.saving is not None
    low, high = finding.saving.direct_ns_per_step
    host = finding.summary.params["host"]
    assert finding.summary.params["added"] == pytest.approx(3 * 30_000)
    assert (low, high) == pytest.approx((0.8 * (host + 90_000), 1.4 * (host + 90_000)))
    assert without.saving.direct_ns_per_step == pytest.approx((0.8 * host, 1.4 * host))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text
