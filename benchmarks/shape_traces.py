"""Traces of one extreme shape each: what a program may write, and what somebody who means harm may write.

A shape is a function from a number to that many steps of events; every event is a dict as the profiler writes it.
Times are microseconds, one apart, so that a shape of N steps lasts N microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Events = Iterator[dict[str, Any]]

_PROBE = 1_000
"""Steps from whose length the number for a size is worked out."""


def event(category: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    """A slice of a thread of the host."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": length, "args": args}


def operator(name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    """An operator."""
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


def nested_operators(n: int) -> Events:
    """Operators nested ever deeper."""
    return (operator(f"aten::op{i % 7}", i, 2 * (n - i)) for i in range(n))


def nested_launches(n: int) -> Events:
    """The same with a launch at each level."""
    for i in range(n):
        yield operator(f"aten::op{i % 7}", i, 2 * (n - i))
        yield call("cudaLaunchKernel", i + 0.2, 0.5, i + 1)
        yield kernel("gemm", n + i, 0.8, i + 1)


def nested_copies(n: int) -> Events:
    """A copy from the host at each level of moves nested ever deeper."""
    for i in range(n):
        yield operator("aten::copy_", i, 2 * (n - i), **{"Input Dims": [[4, 4]], "Input type": ["float"]})
        yield call("cudaMemcpyAsync", i + 0.2, 0.5, i + 1)
        copy = kernel("Memcpy HtoD (Pageable -> Device)", n + i, 0.8, i + 1, bytes=64)
        yield {**copy, "cat": "gpu_memcpy"}


def staircase(n: int) -> Events:
    """Operators of which each starts inside the one before it and ends after it."""
    return (operator(f"aten::op{i % 7}", i, n) for i in range(n))


def many_siblings(n: int) -> Events:
    """One operator around all others."""
    yield operator("aten::all", 0, n)
    yield from (operator(f"aten::op{i % 7}", i + 0.1, 0.5) for i in range(n))


def same_moment(n: int) -> Events:
    """Operators that start at one time."""
    return (operator(f"aten::op{i % 7}", 0, n - i) for i in range(n))


def no_length(n: int) -> Events:
    """Operators without length at one time."""
    return (operator(f"aten::op{i % 7}", 0, 0) for i in range(n))


def long_synchronizations(n: int) -> Events:
    """Synchronizations that nest over kernels that run meanwhile."""
    for i in range(n):
        yield from launched(i)
        yield call("cudaDeviceSynchronize", i, 2 * (n - i), n + i)


def synchronizations_of_threads(n: int) -> Events:
    """Synchronizations of as many threads, all as long as the trace."""
    for i in range(n):
        yield from launched(i)
        yield call("cudaStreamSynchronize", i / n, n, n + i, 10 + i)


def nested_synchronizations(n: int) -> Events:
    """An operator, a synchronization and a kernel at each level."""
    for i in range(n):
        yield operator(f"aten::op{i % 7}", i, 2 * (n - i))
        yield call("cudaStreamSynchronize", i + 0.2, 0.5, i + 1)
        yield kernel("gemm", i, 0.8, n + i)


def loader_waits(n: int) -> Events:
    """A wait for a loader in a wait for a loader."""
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    return (event("user_annotation", name, i, 2 * (n - i)) for i in range(n))


def loaders(n: int) -> Events:
    """Waits for a loader each."""
    return (event("user_annotation", f"enumerate(DataPipe)#{i}", i, 0.5) for i in range(n))


def modules(n: int) -> Events:
    """Modules nested ever deeper, with an operator and a kernel in each."""
    for i in range(n):
        name = f"nn.Module: Block{i % 9}_{i % 5}"
        ids = {"Python id": i + 1, "Python parent id": i, "Python module id": i}
        yield event("python_function", name, i, 2 * (n - i), **ids)
        yield operator("aten::mm", i + 0.2, 0.6)
        yield from launched(i)


def nested_modules(n: int) -> Events:
    """Modules alone, nested ever deeper."""
    for i in range(n):
        ids = {"Python id": i + 1, "Python parent id": i, "Python module id": i % 40}
        yield event("python_function", f"nn.Module: Block_{i % 40}", i, 2 * (n - i), **ids)


def module_classes(n: int) -> Events:
    """Modules of as many classes."""
    for i in range(n):
        ids = {"Python id": i + 1, "Python parent id": 0, "Python module id": i}
        yield event("python_function", f"nn.Module: Class{i}_0", i, 0.9, **ids)
        yield operator("aten::mm", i + 0.1, 0.6)


def recursion(n: int) -> Events:
    """Python functions that call themselves, with an operator in each."""
    for i in range(n):
        ids = {"Python id": i + 1, "Python parent id": i}
        yield event("python_function", f"train.py({i % 50}): walk", i, 2 * (n - i), **ids)
        yield operator("aten::mm", i + 0.2, 0.6)


def recursion_with_waits(n: int) -> Events:
    """Python functions that call themselves, with a wait in each."""
    for i in range(n):
        ids = {"Python id": i + 1, "Python parent id": i}
        yield event("python_function", f"/lib/python3/site-packages/x.py({i % 50}): walk", i, 2 * (n - i), **ids)
        yield call("cudaDeviceSynchronize", i + 0.3, 0.3, i + 1)


def distinct_names(n: int) -> Events:
    """A name of its own on every event."""
    for i in range(n):
        yield operator(f"aten::some_operator_with_a_name_{i}", i, 0.9)
        yield from launched(i, f"void at::native::kernel_{i}<float, Functor{i}<float> >(int, float*)")


def distinct_shapes(n: int) -> Events:
    """Inputs of its own for every operator."""
    for i in range(n):
        shapes = {"Input Dims": [[i + 1, 64], [64, 32]], "Input type": ["float", "float"]}
        yield operator("aten::mm", i, 0.9, **shapes)
        yield from launched(i, grid=[i + 1, 1, 1], block=[128, 1, 1])


def annotations(n: int) -> Events:
    """User's ranges that overlap, on a thread each."""
    return (event("user_annotation", f"range {i}", i, n, i) for i in range(n))


def nested_annotations(n: int) -> Events:
    """User's ranges nested ever deeper, with a launch in each."""
    for i in range(n):
        yield event("user_annotation", f"range {i}", i, 2 * (n - i))
        yield from launched(i)


def nested_optimizers(n: int) -> Events:
    """Optimizers' steps nested ever deeper."""
    for i in range(n):
        yield event("user_annotation", f"Optimizer.step#Adam{i % 5}.step", i, 2 * (n - i))
        yield operator("aten::add_", i + 0.1, 0.8)
        yield from launched(i)


def gpu_annotations(n: int) -> Events:
    """Ranges of the device that overlap."""
    for i in range(n):
        yield {**kernel(f"range {i}", i, n, i + 1), "cat": "gpu_user_annotation"}
        yield from launched(i)


def streams(n: int) -> Events:
    """A stream for every kernel."""
    for i in range(n):
        yield from launched(i, stream=i)


def devices(n: int) -> Events:
    """A device for every kernel."""
    for i in range(n):
        yield from launched(i, device=i)


def threads(n: int) -> Events:
    """A thread for every operator and launch."""
    for i in range(n):
        yield operator("aten::mm", i, 0.9, i)
        yield call("cudaLaunchKernel", i + 0.1, 0.5, i + 1, i)
        yield kernel("gemm", i + 0.7, 0.8, i + 1)


def processes(n: int) -> Events:
    """A process for every operator."""
    return ({**operator("aten::mm", i, 0.9), "pid": i} for i in range(n))


def steps(n: int) -> Events:
    """A step for every launch."""
    for i in range(n):
        yield event("user_annotation", f"ProfilerStep#{i}", i, 1)
        yield operator("aten::mm", i + 0.1, 0.8)
        yield from launched(i)


def nested_steps(n: int) -> Events:
    """Steps within steps."""
    for i in range(n):
        yield event("user_annotation", f"ProfilerStep#{i}", i, 2 * (n - i))
        yield from launched(i)


def process_groups(n: int) -> Events:
    """A process group for every collective."""
    for i in range(n):
        args = {
            "Collective name": "allreduce",
            "Process Group Name": f"group {i}",
            "Process Group Ranks": f"[{i}, {i + 1}]",
            "In msg nelems": i,
            "Out msg nelems": i,
            "Group size": 2,
            "dtype": "Float",
            "Seq": i,
        }
        yield operator("record_param_comms", i, 0.9, **args)
        yield from launched(i, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **args)


def gaps(n: int) -> Events:
    """A gap after every kernel, longer than the kernel, with an operator in it."""
    for i in range(0, 4 * n, 4):
        yield operator("aten::mm", i + 1, 2)
        yield from launched(i)


def overlapping_kernels(n: int) -> Events:
    """Kernels of one stream of which each starts inside all before it."""
    for i in range(n):
        yield call("cudaLaunchKernel", i, 0.5, i + 1)
        yield kernel("gemm", i + 0.6, n, i + 1)


def late_kernels(n: int) -> Events:
    """All launches before the first kernel: a queue as long as the trace."""
    for i in range(n):
        yield call("cudaLaunchKernel", i, 0.5, i + 1)
        yield kernel("gemm", n + i, 0.8, i + 1)


def same_correlation(n: int) -> Events:
    """One correlation for all launches and kernels."""
    for i in range(n):
        yield call("cudaLaunchKernel", i, 0.5, 1)
        yield kernel("gemm", i + 0.6, 0.8, 1)


def one_launch(n: int) -> Events:
    """One launch for all kernels, as of a graph."""
    yield operator("aten::all", 0, 1)
    yield call("cudaGraphLaunch", 0, 0.5, 1)
    yield from (kernel(f"gemm{i % 7}", i + 1, 0.8, 1) for i in range(n))


def same_external_id(n: int) -> Events:
    """One id for all operators, that launches outside of them name."""
    for i in range(n):
        yield operator("aten::mm", 2 * i, 0.9, **{"External id": 7})
        yield event("cuda_runtime", "cudaLaunchKernel", 2 * i + 1, 0.5, 1, **{"External id": 7, "correlation": i + 1})


def flows(n: int) -> Events:
    """Arrows from the forward to the backward pass, all of one id, and operators of one number."""
    for i in range(n):
        yield operator("aten::mm", i, 0.9, **{"Sequence number": 1})
        yield operator("autograd::engine::evaluate_function: MmBackward0", i, 0.9, 2, **{"Sequence number": 1})
        arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1}
        yield {"ph": "s", "tid": 1, "ts": i, **arrow}
        yield {"ph": "f", "tid": 2, "ts": i + 0.5, "bp": "e", **arrow}


def _allocation(i: int, size: int, address: int, total: int) -> dict[str, Any]:
    args = {"Device Type": 1, "Device Id": 0, "Bytes": size, "Addr": address}
    args |= {"Total Allocated": total, "Total Reserved": total}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": i,
        "args": args,
    }


def leaks(n: int) -> Events:
    """Memory that is taken and never given back, each block in an operator."""
    for i in range(n):
        yield operator("aten::empty", i - 0.1, 0.5)
        yield _allocation(i, 512, i + 1, 512 * (i + 1))


def nested_memory(n: int) -> Events:
    """Memory that is taken at each level of operators nested ever deeper."""
    for i in range(n):
        yield operator("aten::empty", i - 0.1, 2 * (n - i))
        yield _allocation(i, 512, i + 1, 512 * (i + 1))


def same_address(n: int) -> Events:
    """One address that is taken again and again, never given back."""
    return (_allocation(i, 512, 7, 512) for i in range(n))


def counters(n: int) -> Events:
    """Counters."""
    return ({"ph": "C", "name": f"counter {i}", "pid": 1, "ts": i, "args": {"value": i}} for i in range(n))


def categories(n: int) -> Events:
    """A category of its own for every event."""
    yield operator("aten::mm", 0, 1)
    yield from (event(f"category {i}", "name", i, 0.5) for i in range(n))


def overheads(n: int) -> Events:
    """Overheads of the profiler that overlap."""
    for i in range(n):
        yield event("overhead", "Buffer Flush", i, n, i % 5)
        yield from launched(i)


def loops(n: int) -> Events:
    """A loop around a loop around a loop, of the same operators."""
    for i in range(n):
        yield operator(f"aten::op{(i & -i).bit_length() % 5}", i, 0.9)
        yield from launched(i, f"kernel{(i & -i).bit_length()}")


def one_string(n: int) -> Events:
    """One operator with one endless name."""
    yield operator("aten::mm", 0, 1)
    yield operator("x" * (100 * n), 2, 1)


def long_names(n: int) -> Events:
    """Names of 20,000 characters."""
    for i in range(0, n, 100):
        yield operator(f"aten::op{i}" + "<a>(" * 5_000, i, 0.9)
        yield from launched(i)


def deep_arguments(n: int) -> Events:
    """Arguments nested 400 deep."""
    value: Any = 1
    for _ in range(200):
        value = {"a": [value]}
    for i in range(0, n, 50):
        yield operator("aten::mm", i, 0.9, deep=value)


def many_arguments(n: int) -> Events:
    """One event with as many arguments."""
    yield operator("aten::mm", 0, 1)
    yield operator("aten::mm", 2, 1, **{f"argument {i}": i for i in range(n)})


SHAPES: tuple[Callable[[int], Events], ...] = (
    nested_operators, nested_launches, nested_copies, staircase, many_siblings, same_moment, no_length,
    long_synchronizations, synchronizations_of_threads, nested_synchronizations, loader_waits, loaders,
    modules, nested_modules, module_classes, recursion, recursion_with_waits, distinct_names, distinct_shapes,
    annotations, nested_annotations, nested_optimizers, gpu_annotations, streams, devices, threads, processes,
    steps, nested_steps, process_groups, gaps, overlapping_kernels, late_kernels, same_correlation, one_launch,
    same_external_id, flows, leaks, nested_memory, same_address, counters, categories, overheads, loops,
    one_string, long_names, deep_arguments, many_arguments,
)  # fmt: skip
"""Each at least as hard as what is found in the wild."""


def write(shape: Callable[[int], Events], path: Path, megabytes: float) -> int:
    """Write a trace of this shape of about this size; the number of its events."""
    bytes_per_step = sum(len(json.dumps(e)) + 2 for e in shape(_PROBE)) / _PROBE
    events = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [\n')
        for each in shape(max(1, int(megabytes * 1e6 / bytes_per_step))):
            file.write((",\n" if events else "") + json.dumps(each))
            events += 1
        file.write("\n]}\n")
    return events
