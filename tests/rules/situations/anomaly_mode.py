"""Backward passes whose results are searched for NaN, by autograd or by the program."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish

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
