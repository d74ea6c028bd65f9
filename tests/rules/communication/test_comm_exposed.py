"""Tests of the rule `comm-exposed`: numbers worked out by hand.

The programs: collectives beside computation, and after it.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

MEGA = 1_000_000


def ddp(*, overlap: int, nelems: int = 8 * MEGA, steps: int = 3, comm: int = 2000, compute: int = 6000) -> TraceBuilder:
    """Steps of one long product and one all-reduce, of which `overlap` microseconds run beside the product."""
    trace = TraceBuilder(distributed={"backend": "nccl", "rank": 0, "world_size": 2})
    length = compute + comm - overlap + 40
    for number in range(steps):
        start = number * length
        trace.step(number, start, length)
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, compute, at=start + 10)
        begin = start + 20 + compute - overlap
        trace.collective("all_reduce", begin, comm, at=start + 40, nelems=nelems)
        trace.launch("cudaStreamSynchronize", start + 120, begin + comm - start - 118)
    return trace


def fires() -> TraceBuilder:
    """Gradients travel after the backward pass, all at once."""
    return ddp(overlap=0)


def quiet() -> TraceBuilder:
    """Gradients travel while the backward pass runs."""
    return ddp(overlap=1950)


def trap_marks_on_the_host() -> TraceBuilder:
    """`nccl:` ranges and `record_param_comms` on the host, but the device only computes."""
    trace = TraceBuilder()
    for number in range(3):
        start = number * 8000
        trace.step(number, start, 8000)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, 5000, at=start + 10)
        trace.op("record_param_comms", start + 5100, 2500)
        trace.annotation("nccl:all_reduce", start + 5110, 2400)
    return trace


RULE = "comm-exposed"


def test_it_is_worth_what_the_product_could_hide() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((0, 2_000_000), rel=0.01)
    assert "late rank" in finding.saving.basis.text, "why the lower end is 0"


def test_more_communication_than_computation_cannot_all_be_hidden() -> None:
    (finding,) = findings(ddp(overlap=0, comm=5000, compute=1000), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(1_000_000, rel=0.01)


@pytest.mark.parametrize(("comm", "overlap", "bound"), [(8000, 4500, "communication"), (5000, 1600, "gpu-compute")])
def test_links_that_are_busy_all_the_time_bound_a_step(comm: int, overlap: int, bound: str) -> None:
    """Of 9.5 ms, collectives take 8 and the product 6; or collectives take less than it."""
    (headline,) = report(ddp(overlap=overlap, comm=comm)).headlines
    assert headline.bound == bound


def test_says_why_it_cannot_judge() -> None:
    assert "no kernels that communicate" in (skipped(trap_marks_on_the_host(), RULE) or "")
    assert "at the same time" in (skipped(fires_in_a_table(), RULE) or "")


def after_each_parameter(*durations: int) -> TraceBuilder:
    """Steps of one long product and an all-reduce of so many microseconds for each parameter after it."""
    trace = TraceBuilder(distributed={"backend": "nccl", "rank": 0, "world_size": 4})
    length = 6000 + sum(durations) + 60
    for number in range(3):
        start = number * length
        trace.step(number, start, length)
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, 6000, at=start + 10)
        begin = start + 6020
        for place, dur in enumerate(durations):
            trace.collective("all_reduce", begin, dur, at=start + 40 + 5 * place, nelems=MEGA)
            begin += dur
        trace.launch("cudaStreamSynchronize", start + 120, begin - start - 118)
    return trace


def test_collectives_that_take_equally_long_wait_for_nobody() -> None:
    (finding,) = findings(after_each_parameter(200, 210, 205, 215, 200, 210), RULE)
    assert finding.saving is not None
    assert finding.action is not None
    assert "late" not in finding.action.text + finding.advice.text
    assert finding.saving.decided_by is not None
    assert "late" not in finding.saving.decided_by.text
    trained = after_each_parameter(200, 210, 205, 215, 200, 210)
    trained.op("Optimizer.step#SGD.step", 100, 10)
    (finding,) = findings(trained, RULE)
    assert "DistributedDataParallel" in (finding.code or "")
    (finding,) = findings(after_each_parameter(900, 210, 205, 215, 200, 210), RULE)
    assert finding.action is not None
    assert "late rank" in finding.action.text, "the first of each step waits"
    assert finding.code is None, "buckets of DDP find no late rank"


def test_waiting_for_a_late_rank_needs_nothing_that_hides_it() -> None:
    """Beside 6 ms of computation, the first of six calls takes 20 ms and the others 0.2 ms: 19.8 ms are waiting."""
    (finding,) = findings(after_each_parameter(20_000, 210, 205, 215, 200, 210), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((0, 19_790_000), rel=0.01)
    assert "equal size" in finding.saving.basis.text


def one_process(*, training: bool, kernel: str = "gemm") -> TraceBuilder:
    """A program drives two GPUs by itself: it copies the model from one to the other before each product."""
    trace = TraceBuilder(devices=(A100, A100))
    for number in range(4):
        start = number * 9000
        trace.step(number, start, 9000)
        trace.op("Broadcast", start + 5, 100)
        for device in (0, 1):
            name = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            trace.launch_kernel(name, start + 200, 2000, at=start + 20 + 10 * device, device=device)
        trace.op("aten::mm", start + 150, 100)
        for device in (0, 1):
            trace.launch_kernel(kernel, start + 2300, 6000, at=start + 160 + 10 * device, device=device)
        trace.launch("cudaDeviceSynchronize", start + 330, 8000)
        if training:
            trace.annotation("Optimizer.step#SGD.step", start + 300, 10)
    return trace


@pytest.mark.parametrize("training", [True, False])
def test_a_process_with_several_gpus_has_no_ranks_that_could_be_late(*, training: bool) -> None:
    (finding,) = findings(one_process(training=training), RULE)
    assert "late" not in finding.advice.text
    assert "late rank" not in finding.saving.basis.text
    assert finding.saving.decided_by is None or "ranks" not in finding.saving.decided_by.text
    assert ("DistributedDataParallel with one process per GPU" in finding.advice.text) is training


def test_two_gpus_of_a_process_do_not_communicate_twice_as_long() -> None:
    """A step of 9 ms has 2 ms of broadcasts on both GPUs at the same time, and without them 7 ms."""
    (finding,) = findings(one_process(training=True), RULE)
    assert finding.evidence[0].where[0].value == pytest.approx(2_000_000)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(2_000_000, rel=0.08)


def test_two_gpus_of_a_process_do_not_compute_twice_as_long() -> None:
    """A step has 6 ms of products on both GPUs beside 2 ms of broadcasts."""
    program = one_process(training=True, kernel="ampere_sgemm_128x64_nn")
    (finding,) = findings(program, "mixed-precision-unused")
    assert "in fp32 for 6.0 ms per step" in finding.summary.text
    assert "6.0 ms in matrix multiplications" in finding.summary.text


def test_inference_has_no_gradients_to_exchange() -> None:
    (finding,) = findings(fires(), RULE)
    trained = ddp(overlap=0, comm=2000)
    trained.op("Optimizer.step#SGD.step", 5000, 10)
    (other,) = findings(trained, RULE)
    assert ("gradients" in finding.advice.text, finding.code) == (False, None)
    assert "gradients" in other.advice.text
