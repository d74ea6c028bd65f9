"""What a headline says where the host or the device was not recorded."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.gpu_work import gpu_alone
from tests.rules.judging import report
from tests.rules.test_special_headlines import KERNEL, late
from traceanalyzer.structure.recording import Recording


def launches_alone(wait: int, name: str = "cudaDeviceSynchronize") -> TraceBuilder:
    """Four steps of 40 launches, 2 ms of host time, whose kernels were not recorded; each ends with a wait."""
    trace = TraceBuilder()
    thread = Host(trace, at=10)
    for number in range(4):
        with thread.annotation(f"ProfilerStep#{number}"):
            for _ in range(40):
                with thread.op("aten::relu", 50):
                    thread.call("cudaLaunchKernel", 5)
            if wait:
                thread.call(name, wait)
    return trace


@pytest.mark.parametrize(
    ("wait", "bound", "told"),
    [
        (8000, "gpu-compute", "the CPU waits 8.0 of the 10.2 ms of each step in cudaDeviceSynchronize"),
        (5, "host", "it waits for the GPU only 5.0 us"),
        (1000, "none", "No verdict"),
        (0, "none", "No verdict"),
    ],
)
def test_waits_answer_for_a_device_that_was_not_recorded(wait: int, bound: str, told: str) -> None:
    """A program that never waits may be far ahead of its device, or not."""
    (headline,) = report(launches_alone(wait)).headlines
    assert headline.bound == bound
    assert told in headline.text


def device_alone(*, cpu: bool) -> TraceBuilder:
    """Eight passes of five kernels, 3 ms of silence after each; operators were recorded or not."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for _ in range(8):
        for name in (KERNEL, "relu_kernel", "cudnn::bn_fw_inf", "pool_kernel", "softmax_warp_forward"):
            with thread.op(f"aten::{name}") if cpu else nullcontext():
                thread.launch(Work(name, 100), stream)
        thread.wait(stream)
        thread.work(3000)
    return finish(trace)


def test_of_a_host_that_was_not_recorded_nothing_is_said() -> None:
    found = report(device_alone(cpu=False))
    (headline,) = found.headlines
    assert headline.bound == "host"
    assert "Only the GPU was recorded: add ProfilerActivity.CPU" in headline.text
    assert "between operators" not in headline.text
    (gap,) = (finding for finding in found.findings if finding.rule == "host-python-gap")
    assert "ProfilerActivity.CPU" in gap.advice.text
    assert gap.saving is None, "another recording saves nothing"
    assert gap.severity == "high"
    assert "Python code" not in gap.summary.text
    assert "in Python between operators" in report(device_alone(cpu=True)).headlines[0].text


def test_a_host_that_runs_ahead_is_no_host_that_was_not_recorded() -> None:
    """Eight iterations that are launched in microseconds; the GPU works for 2 ms of each, long after the operators."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for _ in range(8):
        with thread.annotation("Optimizer.step#SGD.step"), thread.op("aten::mm"):
            thread.launch(Work(KERNEL, 2000), stream)
    thread.wait(stream)
    found = report(finish(trace))
    (headline,) = found.headlines
    assert headline.bound == "gpu-compute"
    assert "Only the GPU was recorded" not in headline.text
    assert found.result("recording", Recording).typical_step_ns == pytest.approx(2_000_000, rel=0.01)  # type: ignore[union-attr]


def test_of_ranks_whose_hosts_were_not_recorded_it_is_said_too() -> None:
    """Two ranks, each recorded with activities=[CUDA] alone; of one with its operators more is known."""
    both = tuple(map(gpu_alone, late(0)))
    (headline,) = report(both).headlines
    assert "Only the GPU was recorded" in headline.text
    (headline,) = report((both[0], late(0)[1])).headlines
    assert "Only the GPU was recorded" not in headline.text
