"""Tests of the rule `gpu-unused`: numbers worked out by hand.

The programs: a model on the CPU of a machine with a GPU, and programs that only look like it.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import V100
from tests.rules.judging import findings, said


def on_cpu(*calls: tuple[str, int], devices: int = 1, operator: str = "aten::mkldnn_convolution") -> TraceBuilder:
    """A step of 2 ms on the CPU, and calls of the GPU's runtime after it, of so many microseconds."""
    trace = TraceBuilder(devices=(V100,) * devices)
    trace.step(0, 0, 2000)
    trace.op(operator, 10, 1800)
    for number, (name, dur) in enumerate(calls):
        trace.launch(name, 2100 + 1000 * number, dur)
    return trace


def fires() -> TraceBuilder:
    """The profiler asks for devices and waits for them when it ends; nothing else was called."""
    return on_cpu(("cudaGetDeviceCount", 2), ("cudaDeviceSynchronize", 5))


def quiet() -> TraceBuilder:
    """A machine without a GPU."""
    return on_cpu(devices=0)


def trap_not_recorded() -> TraceBuilder:
    """No call of the runtime is recorded: the profiler was not told to record the GPU."""
    return on_cpu(operator="aten::addmm")


def trap_launches() -> TraceBuilder:
    """A kernel was launched, whose event is missing."""
    return on_cpu(("cudaLaunchKernel", 5), ("cudaDeviceSynchronize", 5))


def trap_waits() -> TraceBuilder:
    """The wait at the end takes long, so the GPU had work."""
    return on_cpu(("cudaDeviceSynchronize", 1000))


def trap_operator_of_the_gpu() -> TraceBuilder:
    """An operator that only a GPU has."""
    return on_cpu(("cudaDeviceSynchronize", 5), operator="aten::cudnn_convolution")


RULE = "gpu-unused"


def test_the_headline_says_where_the_model_runs() -> None:
    (finding,) = findings(fires(), RULE)
    assert (finding.severity, finding.saving) == ("high", None)
    assert finding.evidence[0].where[0].name == "aten::mkldnn_convolution"
    assert said(fires()).startswith(
        "The model runs on the CPU, all 2.0 ms of the step; Tesla V100-SXM2-16GB is unused."
    )
    assert "Limited by the CPU" in said(quiet())


@pytest.mark.parametrize("trap", [trap_not_recorded, trap_launches, trap_waits, trap_operator_of_the_gpu])
def test_events_that_are_missing_are_no_sign_of_a_model_on_the_cpu(trap: object) -> None:
    told = said(trap())  # type: ignore[operator]
    assert told.startswith("No verdict: ")
    if trap is trap_operator_of_the_gpu:
        assert "`aten::cudnn_convolution` shows that a GPU works, but the GPU was not recorded." in told
    else:
        assert "shows an accelerator, but its events are in no known form." in told


def test_a_device_of_the_header_alone_proves_nothing_of_what_only_a_cpu_computes() -> None:
    assert "Limited by the CPU" in said(on_cpu())
    assert findings(on_cpu(), RULE) == [], "its runtime was not recorded, so that something else may have used it"


def test_calls_that_only_ask_are_no_sign_of_a_device() -> None:
    assert "Limited by the CPU" in said(on_cpu(("cudaGetDeviceCount", 2), devices=0))
