"""Names of runtime calls, copies, ranges and frames."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.reading import read_built
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context


@pytest.mark.parametrize(
    ("is_kind", "names", "others"),
    [
        (
            host_activity.is_synchronization,
            (
                "cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cuCtxSynchronize cuStreamSynchronize "
                "hipDeviceSynchronize hipStreamSynchronize hipEventSynchronize zeEventHostSynchronize urEventWait "
                "urQueueFinish synchronizeStream aclrtSynchronizeStream"
            ),
            "cudaStreamWaitEvent hipStreamWaitEvent cudaEventQuery cudaLaunchKernel urEnqueueEventsWait",
        ),
        (
            host_activity.is_synchronous_copy,
            "cudaMemcpy cudaMemcpy2D cudaMemcpyToSymbol hipMemcpy hipMemcpyWithStream cuMemcpyHtoD_v2",
            "cudaMemcpyAsync cudaMemcpy2DAsync cuMemcpyDtoHAsync_v2 hipMemcpyAsync cudaGraphAddMemcpyNode",
        ),
        (
            host_activity.is_allocation,
            (
                "cudaMalloc cudaFree cudaMallocAsync cudaFreeHost cudaHostAlloc cudaMallocHost cudaMallocManaged "
                "cudaHostRegister hipMalloc hipFree hipHostMalloc hipExtMallocWithFlags cuMemAlloc_v2 cuMemCreate "
                "cuMemMap cuMemSetAccess cuMemAddressReserve zeMemAllocDevice urUSMDeviceAlloc"
            ),
            "cudaMemcpy cuMemcpyAsync cudaMemsetAsync cuMemsetD8Async cudaMemGetInfo cudaLaunchKernel",
        ),
        (
            host_activity.is_free,
            "cudaFree hipFree cuMemFree_v2",
            "cudaFreeHost cudaFreeAsync hipFreeAsync cudaMalloc cuMemFreeHost cuMemFreeAsync",
        ),
        (
            host_activity.is_loading,
            (
                "cuModuleLoadData cuModuleLoadDataEx cuLibraryLoadData hipModuleLoadData cudaLibraryLoadData "
                "cuLinkComplete nvrtcCompileProgram hiprtcCompileProgram zeModuleCreate urProgramBuild"
            ),
            "cuModuleGetFunction hipModuleLaunchKernel hipExtModuleLaunchKernel cuLaunchKernel",
        ),
    ],
)
def test_calls_are_told_apart_by_name(is_kind: object, names: str, others: str) -> None:
    assert callable(is_kind)
    assert [name for name in names.split() if not is_kind(name)] == []
    assert [name for name in others.split() if is_kind(name)] == []


def test_compiling_is_not_running_what_was_compiled() -> None:
    compiling = (
        "_compile.compile_inner (dynamo_timed)",
        "torch/_dynamo/convert_frame.py(1234): _compile",
        r"torch\_dynamo\convert_frame.py(1234): compile_inner",
        "torch/_inductor/compile_fx.py(500): compile_fx_inner",
        "triton/compiler/compiler.py(218): compile",
        "torch/utils/cpp_extension.py(1300): load_inline",
        "load_cuda_ops",
        "rwkv/model.py(30): load_cuda_ops",
        "torch/nn/modules/lazy.py(240): _infer_parameters",
    )
    running = (
        "Torch-Compiled Region: 0/0",
        "## Call CompiledFxGraph fabc ##",
        "TorchDynamo Cache Lookup",
        "triton/compiler/compiler.py(482): launch_metadata",
        "torch/compiler/__init__.py(367): is_compiling",
        "<built-in function compile>",
    )
    assert [name for name in compiling if not host_activity.is_compiling(name)] == []
    assert [name for name in running if host_activity.is_compiling(name)] == []


def test_collectives_and_waits_for_them_communicate() -> None:
    communicating = ("nccl:all_to_all", "gloo:barrier", "c10d::allreduce_", "_c10d_functional::wait_tensor")
    assert all(map(host_activity.is_communicating, communicating))
    assert not any(map(host_activity.is_communicating, ("aten::all", "DistributedDataParallel.forward", "## comm ##")))


@pytest.mark.parametrize(
    ("name", "direction", "side"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "pinned"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", None),
        ("Memcpy HtoD (Host -> Device)", "HtoD", None),
        ("zeCommandListAppendMemoryCopy(M2D)", "HtoD", None),
        ("Memset (Device)", None, None),
    ],
)
def test_copies_say_direction_and_host_memory(name: str, direction: str | None, side: str | None) -> None:
    assert (host_activity.direction(name), host_activity.host_side(name)) == (direction, side)


def test_library_lines_are_those_of_torch_and_python() -> None:
    own = ("train.py(1): main", "transformers/trainer.py(9): step", "/home/me/torchrun_me/model.py(3): f")
    library = (
        "torch/nn/modules/module.py(1501): _call_impl",
        "/usr/lib/python3/dist-packages/torch/optim/adam.py(3): step",
        r"C:\python\torch\autograd\grad_mode.py(27): __enter__",
        "contextlib.py(79): inner",
        "<frozen importlib._bootstrap>(1027): _find_and_load",
    )
    assert all(map(host_activity.is_python_line, own))
    assert [name for name in own if host_activity.is_library_line(name)] == []
    assert [name for name in library if not host_activity.is_library_line(name)] == []
    assert not host_activity.is_python_line("<built-in method item of Tensor object at 0x7f>")
    assert not host_activity.is_python_line("nn.Module: Linear_0")


def test_the_innermost_slice_at_a_time_is_found_per_thread() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100, tid=1)
    trace.op("inner", 10, 20, tid=1)
    trace.op("instant", 15, 0, tid=1)
    trace.op("other", 0, 50, tid=2)
    read = read_built(trace)
    thread = {int(t.tid): row for row, t in enumerate(read.threads)}
    asked = [(1, 0), (1, 10), (1, 15), (1, 29), (1, 30), (1, 100), (2, 15), (2, 60)]
    found = host_activity.innermost(
        read.host,
        np.arange(len(read.host)),
        np.array([thread[tid] for tid, _ in asked], np.int32),
        np.array([time * 1000 for _, time in asked]),
    )
    names = [read.names[read.host.name[row]] if row >= 0 else None for row in found.tolist()]
    assert names == ["outer", "inner", "inner", "inner", "outer", None, "other", None]


def test_threads_that_launch_are_in_the_order_of_their_device_events() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 1, at=0, tid=3)
    for number in range(2):
        trace.launch_kernel("b", 20 + number, 1, at=10 + number, call_dur=1, tid=2)
    trace.launch("cudaDeviceSynchronize", 30, 5, tid=1)
    context = Context(read_built(trace))
    found = [context.trace.threads[row].tid for row in host_activity.launching_threads(context)]
    assert found == ["2", "3"]


@pytest.mark.parametrize(
    ("around", "expected"),
    [("serve.py(12): load_model", "serve.py(12): load_model"), ("json/tool.py(3): run", "scipy/a.py(7): solve")],
)
def test_a_line_is_that_of_the_program_around_a_library(around: str, expected: str) -> None:
    trace = TraceBuilder()
    host = Host(trace, at=0)
    with host.frame("serve.py(90): main"):
        host.work(100)
        with host.frame(around), host.frame("scipy/a.py(7): solve"), host.frame("typing_extensions.py(3): wrapper"):
            host.work(20)
    context = Context(read_built(finish(trace)))
    (code,) = host_activity.python_lines(context, np.zeros(1, np.int32), np.array([110_000])).tolist()
    # main is around most of the recording, and tells less than the function of the library
    assert context.trace.names[code] == expected


@pytest.mark.parametrize(
    ("at", "duration", "loads"),
    [(0, 180_000, True), (0, 20_000, False), (400_000, 180_000, False)],
    ids=["first", "frees a lot", "after work"],
)
def test_a_device_is_initialized_by_freeing_memory_before_any_was_taken(at: int, duration: int, loads: bool) -> None:
    """`cudaFree(0)` makes the driver create its context; later it waits for what runs."""
    trace = TraceBuilder()
    trace.launch("cudaFree", at, duration)
    trace.launch("cudaMalloc", 200_000, 500)
    trace.launch_kernel("kernel", 300_000, 50_000, at=299_990, call_dur=5)
    context = Context(read_built(trace))
    names = [context.trace.names[code] for code in context.trace.launches.name[host_activity.loading_calls(context)]]
    assert names == ["cudaFree"] * loads
