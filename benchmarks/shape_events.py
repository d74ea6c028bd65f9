"""Events as the profiler writes them, in microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Events = Iterator[dict[str, Any]]


def event(category: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    """A slice of a thread of the host."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": length, "args": args}


def operator(name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    """An operator that ran on the host."""
    return event("cpu_op", name, start, length, tid, **args)


def call(name: str, start: float, length: float, correlation: int, tid: int = 1) -> dict[str, Any]:
    """A call of the runtime."""
    return event("cuda_runtime", name, start, length, tid, correlation=correlation)


def kernel(name: str, start: float, length: float, correlation: int, stream: int = 7, **args: Any) -> dict[str, Any]:
    """A kernel of the first device."""
    args = {"device": 0, "stream": stream, "correlation": correlation, **args}
    return {**event("kernel", name, start, length, stream, **args), "pid": 0}


def launched(i: int, name: str = "gemm", stream: int = 7, **args: Any) -> Events:
    """A launch and the kernel that it starts."""
    yield call("cudaLaunchKernel", i, 0.5, i + 1)
    yield kernel(name, i + 0.6, 0.8, i + 1, stream, **args)
