"""Levels of device memory."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100

CAPACITY = A100.memory
"""Memory of the builder's default device, in bytes."""


def training(allocated: float, reserved: float, *, kernel: int = 2000) -> TraceBuilder:
    """Two records of memory, at shares of the device's capacity, and two kernels."""
    trace = TraceBuilder()
    trace.step(0, 0, 100 + 2 * kernel)
    trace.op("aten::empty", 10, 20)
    trace.launch_kernel("fill_kernel", 40, kernel, at=15)
    trace.launch_kernel("fill_kernel", 40 + kernel, kernel, at=25)
    size = int(allocated * CAPACITY)
    trace.memory(size, at=20, allocated=size, reserved=int(reserved * CAPACITY), device=0)
    return trace


def fires() -> TraceBuilder:
    """Nearly the whole device is in use."""
    return training(0.95, 0.97)


def quiet() -> TraceBuilder:
    """Half of the device is free."""
    return training(0.45, 0.50)


def trap_cpu_memory() -> TraceBuilder:
    """Much memory, but the host's: it has no limit that the trace knows."""
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.op("aten::empty", 10, 20)
    trace.memory(10 * CAPACITY, at=20, allocated=10 * CAPACITY)
    return trace


def trap_only_reserved() -> TraceBuilder:
    """The allocator has reserved nearly the whole memory, but half of that is its cache."""
    return training(0.50, 0.97)


def trap_a_server() -> TraceBuilder:
    """A server, whose caches take the memory on purpose."""
    trace = training(0.95, 0.97)
    trace.annotation("step[DECODE bs=8]", 5, 60)
    return trace
