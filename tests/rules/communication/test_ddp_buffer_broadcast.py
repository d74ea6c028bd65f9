"""Tests of the rule `ddp-buffer-broadcast`: numbers worked out by hand.

The programs: forward passes of DistributedDataParallel that begin with a broadcast of buffers, or not.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.hardware import A100
from tests.builders.timeline import Host, Stream
from tests.rules.gpu_work import MATRIX_UNITS, Call, gpu_alone, kernel, product, training
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report


def parallel(flatten: int, *, kernel: int = 100, operators: bool = True, last: int = 100) -> TraceBuilder:
    """Steps whose forward pass first copies buffers for so long, or does something else; then 20 kernels."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.annotation("DistributedDataParallel.forward"):
            if operators:
                host.leaf("aten::flatten_dense_tensors", flatten)
                host.leaf("c10d::broadcast_", 20)
                host.leaf("aten::unflatten_dense_tensors", flatten)
            else:
                host.leaf("aten::cat", 2 * flatten)
            for _ in range(19):
                compute(host, stream, kernel)
            compute(host, stream, last)

    return looping(step)


def fires() -> TraceBuilder:
    """Each forward pass copies buffers for 4 ms; the kernels of a step take 2 ms."""
    return parallel(2000)


def alone(*kernels: str, dur: int = 100) -> TraceBuilder:
    """Three steps of these kernels and of a product; only the GPU was recorded."""
    calls = [Call("c10d::x", [kernel(f"ncclDevKernel_{name}_RING_LL(x)", dur)]) for name in kernels]
    return gpu_alone(training([*calls, product(MATRIX_UNITS, 2000)]))


def fires_where_only_kernels_were_recorded() -> TraceBuilder:
    """Broadcasts of 100 us beside all-reduces in each step."""
    return alone("Broadcast", "AllReduce_Sum_f32")


def trap_broadcasts_of_something_else() -> TraceBuilder:
    """Without reductions of gradients they are not those of DistributedDataParallel."""
    return alone("Broadcast", "AllGather")


def quiet() -> TraceBuilder:
    """A model with a few buffers."""
    return parallel(5)


def trap_no_broadcast() -> TraceBuilder:
    """The forward pass begins with 4 ms of something else."""
    return parallel(2000, operators=False)


def trap_hidden_by_the_gpu() -> TraceBuilder:
    """Kernels of the step before run for 10 ms longer than the host needs."""
    return parallel(2000, last=10_000)


def over_gloo(broadcast: int, *, kernel: int = 0) -> TraceBuilder:
    """Three steps on the CPU, whose forward pass first sends buffers for so many us; a GPU may work meanwhile."""
    loop, stream = GlooTraining(devices=(A100,) if kernel else ()), Stream()
    for number in range(3):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            if kernel:
                compute(loop.host, stream, kernel)
            loop.forward(broadcast=broadcast)
            loop.backward([200])
            loop.update()
    return loop.finish()


def fires_over_gloo() -> TraceBuilder:
    """Each forward pass sends buffers for 400 us, and copies them for 100."""
    return over_gloo(400)


def fires_over_gloo_beside_a_gpu() -> TraceBuilder:
    """The same, while a GPU works for 200 us."""
    return over_gloo(400, kernel=200)


def trap_no_buffers_over_gloo() -> TraceBuilder:
    """A model without buffers."""
    return over_gloo(0)


RULE = "ddp-buffer-broadcast"


def test_is_worth_at_most_the_idle_time_of_the_broadcast() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert 2_000_000 < high < 4_030_000  # of 4,020 us, less what kernels of the step before hide
    assert low == high, "no communication was recorded that could take its place"
    assert finding.summary.params["operator"] in ("aten::flatten_dense_tensors", "aten::unflatten_dense_tensors")
    assert "broadcast_buffers=False" in (finding.code or "")


def test_counts_once_and_is_said_in_the_headline() -> None:
    whole = report(fires())
    assert "host-python-gap" not in [finding.rule for finding in whole.findings]
    assert "the broadcast of DDP's buffers" in whole.headlines[0].text


def test_without_a_gpu_the_whole_broadcast_counts() -> None:
    """50 us to flatten, 10 to call, 400 to send, 50 to copy back; half of it surely, at most half more."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 512_000, 1.5 * 512_000)), "with 2 before the first"
    assert finding.saving.basis.params["most"] == 1.5
    assert "GPU" not in finding.summary.text


def test_a_broadcast_on_the_host_takes_the_hosts_time_whatever_a_gpu_does_meanwhile() -> None:
    (finding,) = findings(fires_over_gloo_beside_a_gpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 512_000, 1.5 * 512_000))
    (place,) = finding.where
    assert (place.kind, place.device, place.ns_per_step) == ("host", None, 512_000)
    assert finding.summary.params["host"] == 512_000
    assert finding.evidence[0].where[0].value == 512_000


def test_kernels_show_the_time_of_broadcasts() -> None:
    # the three steps without marks are one
    (finding,) = findings(fires_where_only_kernels_were_recorded(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1 / 2.2, rel=0.05)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 300_000), rel=0.05)
