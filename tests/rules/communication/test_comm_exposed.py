"""Tests of the rule `comm-exposed`: numbers worked out by hand.

The programs: collectives beside computation, and after it.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import findings, skipped
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


def test_says_why_it_cannot_judge() -> None:
    assert "no kernels that communicate" in (skipped(trap_marks_on_the_host(), RULE) or "")
    assert "at the same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_inference_has_no_gradients_to_exchange() -> None:
    (finding,) = findings(fires(), RULE)
    trained = ddp(overlap=0, comm=2000)
    trained.op("Optimizer.step#SGD.step", 5000, 10)
    (other,) = findings(trained, RULE)
    assert ("gradients" in finding.advice.text, finding.code) == (False, None)
    assert "gradients" in other.advice.text
    assert other.code is not None
    assert "DistributedDataParallel" in other.code
