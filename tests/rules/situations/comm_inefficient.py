"""Collectives of different sizes and speeds."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.situations.comm_exposed import MEGA

Message = tuple[int, int]
"""Elements of four bytes, and microseconds."""


def exchange(*messages: Message, steps: int = 3, compute: int = 2000, ranks: tuple[int, ...] = (0, 1)) -> TraceBuilder:
    """Steps of one product and some all-reduces, one after the other."""
    trace = TraceBuilder(distributed={"backend": "nccl", "rank": 0, "world_size": 2})
    start = 0
    for number in range(steps):
        begin = start
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, compute, at=start + 10)
        end = start + 20 + compute
        for index, (nelems, dur) in enumerate(messages):
            at = start + 40 + 70 * index
            trace.collective("all_reduce", max(end + 2, at + 70), dur, at=at, nelems=nelems, ranks=ranks)
            end = max(end + 2, at + 70) + dur
        trace.step(number, begin, end + 10 - begin)
        start = end + 20
    return trace


def fires() -> TraceBuilder:
    """One of two large messages takes four times as long for the same bytes."""
    return exchange((10 * MEGA, 400), (10 * MEGA + 8, 1600))


def fires_for_many_small_messages() -> TraceBuilder:
    """Each parameter is sent by itself."""
    return exchange(*[(5_000, 60)] * 12, compute=500)


def quiet() -> TraceBuilder:
    """Large buckets, all equally fast."""
    return exchange((10 * MEGA, 400), (12 * MEGA, 480))


def trap_little_communication() -> TraceBuilder:
    """A few small messages in a long step: merging them gains nothing."""
    return exchange((5_000, 20), (5_000, 20), compute=20_000)


def trap_small_messages_beside_large_ones() -> TraceBuilder:
    """Many small messages, but nearly all time is in one large one."""
    return exchange(*[(1_000, 10)] * 8, (50 * MEGA, 2_000))


def fires_below_the_link() -> TraceBuilder:
    """All large messages move 10 GB/s: 42 MB in 4 ms and more, where the A100's NVLink carries 300 GB/s."""
    return exchange((10 * MEGA, 4_000), (12 * MEGA, 4_800))
