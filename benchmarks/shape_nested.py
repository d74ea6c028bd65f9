"""Shapes of slices: nested ever deeper, overlapping, or with many distinct values."""

from __future__ import annotations

from benchmarks.shape_events import Events, call, event, kernel, launched, operator


def nested_operators(n: int) -> Events:
    """Operators nested ever deeper."""
    return (operator(f"aten::op{i % 7}", i, 2 * (n - i)) for i in range(n))


def nested_launches(n: int) -> Events:
    """Operators nested ever deeper, with a launch at each level."""
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
    """Waits for a loader nested in each other."""
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    return (event("user_annotation", name, i, 2 * (n - i)) for i in range(n))


def loaders(n: int) -> Events:
    """Waits, each for another loader."""
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
    """Modules, each of another class."""
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
    """Ranges of a user that overlap, each on another thread."""
    return (event("user_annotation", f"range {i}", i, n, i) for i in range(n))


def nested_annotations(n: int) -> Events:
    """Ranges of a user nested ever deeper, with a launch in each."""
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
