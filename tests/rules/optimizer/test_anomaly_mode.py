"""Tests of the rule `anomaly-mode`: numbers worked out by hand, and edges of thresholds.

The programs: backward passes whose results are searched for NaN, by autograd or by the program.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.judging import findings, report, skipped
from tests.rules.optimizer.test_autograd_in_inference import in_a_table

EVALUATION = "autograd::engine::evaluate_function: "
Checks = Callable[[Host, int], None]
"""Events of an evaluation after the function, by the number of the layer."""


def look_for_nan(host: Host, layer: int = 0) -> None:
    """What autograd does with each tensor that a function returns: 12 us."""
    with host.op("aten::isnan", 1, 1):
        host.leaf("aten::ne", 2)
    with host.op("aten::_is_any_true", 1, 1):
        host.leaf("aten::any", 3)
    with host.op("aten::item", 1, 1):
        host.leaf("aten::_local_scalar_dense", 1)


def training(checks: Checks, *, stack: int = 0, steps: int = 4, hook: Checks | None = None) -> TraceBuilder:
    """Steps of ten layers on a CPU.

    Args:
        checks: Events after each function of the backward pass.
        stack: Time in us that each operator of the forward pass takes before its work.
        steps: Number of steps.
        hook: Events before each function.
    """
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    host = Host(trace, at=10)
    sequence = 0
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            for layer in range(10):
                with host.op("aten::relu", 2 + stack, 1, shapes=[[8, 8]], sequence=sequence + layer):
                    host.leaf("aten::clamp_min", 10)
            for layer in reversed(range(10)):
                around = host.op(EVALUATION + "ReluBackward0", 1, 1, sequence=sequence + layer, fwd_thread=1)
                with around:
                    if hook is not None:
                        hook(host, layer)
                    function = host.op("ReluBackward0", 2, 1, sequence=sequence + layer, fwd_thread=1)
                    with function, host.op("aten::threshold_backward", 2, 0):
                        host.leaf("aten::empty", 8)
                    checks(host, layer)
            sequence += 10
    return finish(trace)


def nothing(host: Host, layer: int) -> None:
    """No check after a function."""


def fires() -> TraceBuilder:
    """Anomaly mode: a stack for each operator, and a check after each function."""
    return training(look_for_nan, stack=100)


def quiet() -> TraceBuilder:
    """Anomaly mode is off."""
    return training(nothing)


def trap_hook_on_a_layer() -> TraceBuilder:
    """A hook of the program checks the gradients of two layers."""
    return training(lambda host, layer: look_for_nan(host) if layer < 2 else None)


def trap_hooks_before_functions() -> TraceBuilder:
    """Hooks of the program check what functions are given."""
    return training(nothing, hook=look_for_nan)


def trap_check_of_the_loss() -> TraceBuilder:
    """The program itself looks whether its loss is NaN."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(10):
                look_for_nan(host)
    return finish(trace)


RULE = "anomaly-mode"


def test_checks_and_stacks_go_away() -> None:
    (finding,) = findings(training(look_for_nan, stack=20), RULE)
    assert finding.saving is not None
    # Ten checks of 13 us until the end of the evaluation: 4 + 5 + 3, and 1 us of the evaluation itself. Ten stacks: the
    # operators of the forward pass begin their work after 22 us, those of autograd (threshold_backward) after 2 us.
    low, high = finding.saving.direct_ns_per_step
    assert low == 10 * 13_000 + 10 * 20_000
    assert high == 1.5 * low
    assert "200 us are for stacks" in finding.summary.text
    assert finding.severity == "critical"
    assert "GPU" not in finding.summary.text + finding.advice.text + finding.not_when.text


def test_the_saving_is_no_longer_than_the_step() -> None:
    found = training(look_for_nan, stack=10_000)
    (finding,) = findings(found, RULE)
    step = report(found, RULE).headlines[0].resources.step_ns
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(step)


def test_without_stacks_the_checks_remain() -> None:
    (finding,) = findings(training(look_for_nan), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == 10 * 13_000


def test_a_table_does_not_tell() -> None:
    assert "does not show" in (skipped(in_a_table(), RULE) or "")


def test_edge_checked_share() -> None:
    eight = training(lambda host, layer: look_for_nan(host) if layer < 8 else nothing(host, layer))
    assert findings(eight, RULE), "8 of 10"
    assert findings(eight, RULE, {"checked_share": 0.81}) == []


def test_edge_functions() -> None:
    assert findings(fires(), RULE, {"functions": 40}), "10 in each of 4 steps"
    assert findings(fires(), RULE, {"functions": 41}) == []
