"""Training steps that reduce their gradients one by one."""

from __future__ import annotations

from tests.builders import TraceBuilder

REDUCTION = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def training(calls: int, dur: int, *, update: bool = True) -> TraceBuilder:
    """Three steps of a product of 5000 us and collectives of `dur` us behind it; sizes are not recorded."""
    trace = TraceBuilder(distributed={"backend": "nccl", "rank": 0, "world_size": 8})
    length = 5100 + calls * (dur + 5)
    for number in range(3):
        start = number * length
        trace.step(number, start, length)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, 5000, at=start + 10)
        for call in range(calls):
            begin = start + 5030 + call * (dur + 5)
            trace.launch_kernel(REDUCTION, begin, dur, at=start + 40 + 3 * call)
        if update:
            trace.op("Optimizer.step#SGD.step", start + length - 20, 10)
    return trace


def fires() -> TraceBuilder:
    """Two hundred reductions of 20 us."""
    return training(200, 20)


def quiet() -> TraceBuilder:
    """Ten buckets."""
    return training(10, 400)


def trap_long_collectives() -> TraceBuilder:
    """Many, but each is long: the links are busy."""
    return training(150, 200)


def trap_tensor_parallel_inference() -> TraceBuilder:
    """Two per layer, each of which the next layer needs."""
    return training(200, 20, update=False)
