"""Collectives beside computation, and after it."""

from __future__ import annotations

from tests.builders import TraceBuilder

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
