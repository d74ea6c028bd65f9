"""Shapes with very many streams, devices, threads, steps or memory records, or very long texts."""

from __future__ import annotations

from typing import Any

from benchmarks.shape_events import Events, call, event, kernel, launched, operator


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
    """Steps that lie within each other."""
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
    """Memory that is allocated and never freed, each block in an operator."""
    for i in range(n):
        yield operator("aten::empty", i - 0.1, 0.5)
        yield _allocation(i, 512, i + 1, 512 * (i + 1))


def nested_memory(n: int) -> Events:
    """Memory that is allocated at each level of ever deeper nested operators."""
    for i in range(n):
        yield operator("aten::empty", i - 0.1, 2 * (n - i))
        yield _allocation(i, 512, i + 1, 512 * (i + 1))


def same_address(n: int) -> Events:
    """One address that is allocated again and again, and never freed."""
    return (_allocation(i, 512, 7, 512) for i in range(n))


def counters(n: int) -> Events:
    """Counters, each with a name of its own."""
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
    """Three nested loops of the same operators."""
    for i in range(n):
        yield operator(f"aten::op{(i & -i).bit_length() % 5}", i, 0.9)
        yield from launched(i, f"kernel{(i & -i).bit_length()}")


def one_string(n: int) -> Events:
    """One operator with a very long name."""
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
