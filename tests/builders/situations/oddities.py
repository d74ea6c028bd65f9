"""Small traces with exact times, each with one property that has misled other tools."""

from __future__ import annotations

from ..dialects import ERA_2022
from ..hardware import A100, H100
from ..timeline import Host, Stream, Work, finish
from ..trace import TraceBuilder

_GEMM = "ampere_sgemm_128x64_nn"
_RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu, std::array<char*, 2ul> >(int)"
_SQUARE = [[256, 256], [256, 256]]


def overlapping_slices() -> TraceBuilder:
    """Slices that start inside another one and end after it: two operators, two frames, two kernels."""
    trace = TraceBuilder(origin=5_000_000)
    trace.step(1, 0, 300)
    trace.python_function("train.py(10): step", 5, 150)
    trace.python_function("train.py(20): log", 140, 60)
    trace.op("aten::mm", 10, 60, shapes=_SQUARE)
    trace.op("aten::relu", 50, 40, shapes=_SQUARE[:1])
    trace.launch_kernel(_GEMM, 30, 80, at=20)
    trace.launch_kernel(_RELU, 100, 40, at=75)
    trace.op("aten::add", 210, 30, shapes=_SQUARE)
    trace.launch_kernel(_RELU, 230, 20, at=215)
    return trace


def kernels_without_launch() -> TraceBuilder:
    """The window cut the launches of the first kernels off, and the kernels of the last launch."""
    trace = TraceBuilder(origin=6_000_000)
    for start in (0, 35):
        trace.kernel(_GEMM, start, 30, flow=True, grid=(216, 1, 1))
    trace.memset(1024, 70, 2)
    trace.step(1, 20, 200)
    trace.op("aten::mm", 40, 30, shapes=_SQUARE)
    trace.launch_kernel(_GEMM, 80, 60, at=50, grid=(216, 1, 1))
    trace.op("aten::relu", 190, 20, shapes=_SQUARE[:1])
    trace.launch(None, 195, 6, flow=True)
    return trace


def gpu_step_annotations() -> TraceBuilder:
    """`ProfilerStep#` on the host and again on the device, where the ranges end later."""
    trace = TraceBuilder(origin=7_000_000)
    host, stream = Host(trace), Stream()
    for number in (3, 4, 5):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(2):
                with host.op("aten::mm", shapes=_SQUARE):
                    host.launch(Work(_GEMM, 90, (108, 1, 1)), stream)
        host.work(20)
    return finish(trace, stream)


def cuda_driver_launches() -> TraceBuilder:
    """Kernels launched by `cuLaunchKernel` (Triton) and `cuLaunchKernelEx` (cuBLAS on Hopper)."""
    trace = TraceBuilder(devices=(H100,), options=("record_shapes",), origin=8_000_000)
    host, stream = Host(trace), Stream()
    for number in (1, 2):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation("Torch-Compiled Region: 0/0", 12, 3):
                with host.op("triton_poi_fused_add_relu_0", args=_TRITON):
                    host.launch(Work("triton_poi_fused_add_relu_0", 12, (512, 1, 1)), stream, call="cuLaunchKernel")
                with host.op("aten::mm", shapes=_SQUARE, types=["c10::BFloat16", "c10::BFloat16"]):
                    gemm = Work("nvjet_hsh_128x128_64x6_2x1_v_bz_NNT", 34, (132, 1, 1), (384, 1, 1), 168)
                    host.launch(gemm, stream, call="cuLaunchKernelEx")
            host.wait(stream, call="cudaDeviceSynchronize")
    return finish(trace, stream)


_TRITON = {
    "kernel_backend": "triton",
    "kernel_hash": "c7h4n6k2",
    "kernel_file": "c7h4n6k2.py",
    "num_warps": 4,
    "num_stages": 1,
    "grid": "grid(65536,)",
    "stream": 7,
}


def external_id_is_correlation() -> TraceBuilder:
    """Writers of 2022: `External id` of launches and kernels repeats the correlation, names no operator."""
    trace = TraceBuilder(ERA_2022, origin=9_000_000)
    host, stream = Host(trace), Stream()
    for number in (1, 2):
        with host.annotation(f"ProfilerStep#{number}"):
            for name, kernel in (("aten::mm", _GEMM), ("aten::relu", _RELU)):
                with host.op(name, shapes=_SQUARE):
                    host.launch(Work(kernel, 40, (108, 1, 1)), stream)
            host.wait(stream)
    return finish(trace, stream, annotations=False)


def streams_shared_by_devices() -> TraceBuilder:
    """Two devices whose streams are both number 7; their kernels overlap in time."""
    trace = TraceBuilder(devices=(A100, A100), origin=10_000_000)
    host, first, second = Host(trace), Stream(7, 0), Stream(7, 1)
    with host.annotation("ProfilerStep#1"):
        for stream in (first, second, first, second):
            with host.op("aten::mm", shapes=_SQUARE):
                host.launch(Work(_GEMM, 120, (108, 1, 1)), stream)
        with host.op("aten::copy_", shapes=_SQUARE):
            host.copy("PtoP", 262_144, first, dur=15)
        host.wait(first, second, call="cudaDeviceSynchronize")
    return finish(trace, first, second)


def forked_processes() -> TraceBuilder:
    """A parent and a forked child in one file, with threads of the same number."""
    trace = TraceBuilder(pid=5001, tid=77, origin=11_000_000)
    trace.step(1, 0, 200)
    trace.op("aten::mm", 20, 60, shapes=_SQUARE)
    trace.launch_kernel(_GEMM, 60, 80, at=40, grid=(108, 1, 1))
    trace.op("aten::stack", 10, 150, pid=5002, shapes=[[]], types=["TensorList"])
    trace.op("aten::cat", 15, 140, pid=5002, shapes=[[]], types=["TensorList"])
    trace.op("aten::relu", 90, 30, shapes=_SQUARE[:1])
    trace.launch_kernel(_RELU, 145, 10, at=95, grid=(108, 1, 1))
    return trace
