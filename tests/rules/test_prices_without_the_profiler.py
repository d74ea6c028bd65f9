"""What recording costs, and what changes save without it."""

from __future__ import annotations

from decimal import Decimal
from math import hypot

import pytest

from tests.builders import TraceBuilder
from tests.rules.test_prices import MM, OPERATOR, budget, prices, takes, wall, with_steps
from traceanalyzer.structure.events import EventSet


def crowded() -> TraceBuilder:
    """A step of 1000: one operator of 400, and 1000 of 0.5 each."""
    trace = TraceBuilder()
    trace.step(1, 0, 1000)
    trace.op("aten::mm", 0, 400)
    for number in range(1000):
        trace.op("aten::add", 400 + Decimal(number) / 2, Decimal("0.5"))
    return trace


def test_recording_costs_between_nothing_and_what_was_measured() -> None:
    """The small operators are shorter by what recording them costs, so half of them is less by half of that."""
    change = takes("host", 250, 250, EventSet.operator("aten::add"))
    low, point, high = wall(prices(crowded()).saving(change, budget(1000)))
    assert (low, point, high) == with_steps(250 - 500 * OPERATOR, 250, 250)


def test_a_capture_states_savings_of_the_step_without_the_profiler() -> None:
    """Recording costs 250: then the large operator takes 400 of 750, and half of the step without the profiler."""
    found = prices(crowded(), plain=750)
    saving = found.saving(takes("host", 400, 400, MM), budget(1000))
    assert saving.step_ns == 750_000
    assert wall(saving) == with_steps(300, 400, 400)
    assert saving.wall_share == pytest.approx((0.4, 400 / 750), abs=0.002)
    assert saving.basis.id == "saving-without-profiler"
    slower = prices(crowded(), plain=1100).saving(takes("host", 400, 400, MM), budget(1000))
    assert wall(slower) == with_steps(440, 440, 440), "a machine that was busier then: the share is the same"


def beside(kernel: int) -> TraceBuilder:
    """A step of 1000 with an operator of 400, beside a kernel that takes so long."""
    trace = TraceBuilder()
    trace.step(1, 0, 1000)
    if kernel:
        trace.launch_kernel("gemm", 10, kernel, at=5, call_dur=3)
    trace.op("aten::mm", 500, 400)
    return trace


@pytest.mark.parametrize(
    ("kernel", "plain", "most"),
    [
        pytest.param(100, 900, 360 * 10 / 9, id="a-ninth"),
        pytest.param(100, 600, 240 * 1.2, id="two-thirds-count-as-a-fifth"),
        pytest.param(100, 1000, 400, id="no-longer"),
        pytest.param(100, None, 400, id="no-capture"),
        pytest.param(0, 600, 240, id="no-device"),
    ],
)
def test_beside_a_device_recording_may_have_made_the_rest_of_a_step_longer(
    kernel: int, plain: float | None, most: float
) -> None:
    """An operator of 400 of 1000 has the same share of a step without the profiler, or more by what recording took."""
    low, point, high = wall(prices(beside(kernel), plain).saving(takes("host", 400, 400, MM), budget(1000)))
    assert point == pytest.approx(0.4 * (plain or 1000), rel=1e-3)
    assert 0.96 * point < low < point
    # with 2 % of the point for steps that differ, but no more than the operator takes
    assert high == pytest.approx(min(400, point + hypot(most - point, 0.02 * point)), rel=1e-3)


def test_no_more_than_the_time_in_which_the_device_does_nothing_is_saved_without_the_profiler() -> None:
    """The kernel takes 740 of 1000, so that 0.6 times 260 are left."""
    saving = prices(beside(740), plain=600).saving(takes("host", 250, 250, MM), budget(1000))
    assert wall(saving) == (pytest.approx(0.98 * 150, rel=0.01), pytest.approx(150, rel=1e-3), pytest.approx(156))
    assert saving.basis.id == "saving-no-more"
