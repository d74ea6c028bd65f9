"""What bounds a run."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import report
from tests.rules.situations.dataloader_bound import LOADER, training


def bound(trace: TraceBuilder) -> str:
    (found,) = report(trace).headlines
    return found.bound


def steps(*, host: int, kernel: str, gpu: int, gap: int = 0) -> TraceBuilder:
    """Three steps that work on the host, then run one kernel, wait for it, and do nothing that is traced."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.op("aten::mm", host, 2):
                thread.launch(Work(kernel, gpu), stream)
            thread.wait(stream)
            thread.work(gap)
    return finish(trace)


def test_a_busy_gpu_with_products_computes() -> None:
    assert bound(steps(host=10, kernel="ampere_sgemm_128x64_nn", gpu=5000)) == "gpu-compute"


def test_a_busy_gpu_with_elementwise_kernels_moves_data() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >()"
    assert bound(steps(host=10, kernel=name, gpu=5000)) == "gpu-memory"


def test_a_starved_gpu_is_the_hosts_fault() -> None:
    assert bound(steps(host=5000, kernel="ampere_sgemm_128x64_nn", gpu=500)) == "host"


def test_waiting_for_input() -> None:
    assert bound(training(4000, 3000)) == "input"


def test_a_small_wait_does_not_bound_a_run() -> None:
    assert bound(training(500, 6000)) == "gpu-compute"


def test_nothing_dominates() -> None:
    """A quarter of the step is lost, but to two causes that are each too small to name."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            thread.range(LOADER, 1000)
            with thread.op("aten::mm", 1000, 2):
                thread.launch(Work("ampere_sgemm_128x64_nn", 6000), stream)
            thread.wait(stream)
    (found,) = report(finish(trace)).headlines
    assert found.bound == "none"
    assert "Nothing dominates" in found.message.text


def test_start_up_is_no_bound() -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    with thread.annotation("ProfilerStep#0"):
        with thread.op("aten::mm"):
            thread.launch(Work("ampere_sgemm_128x64_nn", 100), stream, call_dur=50_000)
        thread.wait(stream)
    (found,) = report(finish(trace)).headlines
    assert found.bound == "none"
    assert "start-up" in found.message.text


@pytest.mark.parametrize(("operator", "expected"), [("aten::mm", "host"), ("aten::cudnn_convolution", "none")])
def test_without_device_events(operator: str, expected: str) -> None:
    """A training on the CPU is bound by it; operators of a GPU whose events are missing tell nothing."""
    trace = TraceBuilder(devices=())
    thread = Host(trace, at=10)
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            thread.leaf(operator, 1000)
    assert bound(finish(trace)) == expected
