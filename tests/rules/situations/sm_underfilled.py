"""Kernels with fewer blocks than multiprocessors. The V100 has 80."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training

NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"


def model(blocks: int, dur: int = 4000, *, streams: int = 1) -> TraceBuilder:
    """Kernels with some blocks, beside as much time in a kernel that fills the device."""
    small = Call("aten::native_layer_norm", [kernel(NORM, dur, grid=(blocks, 1, 1))])
    return training([small, addition(dur)], streams=streams)


def fires() -> TraceBuilder:
    """20 blocks for half of the time."""
    return model(20)


def quiet() -> TraceBuilder:
    """Two blocks for each multiprocessor."""
    return model(160)


def trap_streams_that_overlap() -> TraceBuilder:
    """A kernel of another stream fills what this one leaves empty."""
    return model(20, streams=2)


def trap_decoding() -> TraceBuilder:
    """One token at a time: many kernels of a few microseconds, bound by latency."""
    return training([Call("aten::native_layer_norm", [kernel(NORM, 6, grid=(2, 1, 1))] * 100)])


def trap_collectives() -> TraceBuilder:
    """Kernels that communicate leave the multiprocessors to others on purpose."""
    reduce = Call("c10d::allreduce_", [kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 4000, grid=(12, 1, 1))])
    return training([reduce, Call("aten::add", [kernel(ADDITION, 4000)])])


def trap_persistent_kernels() -> TraceBuilder:
    """One block for nearly each multiprocessor, which takes its work from a list."""
    return model(76)
