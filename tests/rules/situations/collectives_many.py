"""Training steps that reduce their gradients one by one."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining

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
    """Ten large messages per step."""
    return training(10, 400)


def trap_long_collectives() -> TraceBuilder:
    """Many, but each is long: the links are busy."""
    return training(150, 200)


def trap_tensor_parallel_inference() -> TraceBuilder:
    """Two per layer, each of which the next layer needs."""
    return training(200, 20, update=False)


def over_gloo(reduces: list[int], *, passes: int = 1, elements: int = 1000) -> TraceBuilder:
    """Three steps of 2 ms on the CPU with passes that wait for so many all-reduces, one after the other."""
    loop = GlooTraining()
    for number in range(3):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            for _ in range(passes):
                loop.forward()
                loop.backward(reduces, elements=elements)
            loop.update()
    return loop.finish()


def fires_over_gloo() -> TraceBuilder:
    """Six messages of 4 kB, of 300 to 800 us."""
    return over_gloo([300, 400, 500, 600, 700, 800])


def trap_one_bucket_per_pass() -> TraceBuilder:
    """Six passes of an accumulation, each with its bucket."""
    return over_gloo([500], passes=6)


def trap_full_buckets() -> TraceBuilder:
    """A large model: each of six messages is a full bucket of 25 MiB."""
    return over_gloo([5000] * 6, elements=(25 << 20) // 4)


def trap_first_bucket() -> TraceBuilder:
    """The first bucket is small by design, and parameters that come late make two more."""
    return over_gloo([300, 400, 500, 600])
