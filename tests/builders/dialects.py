"""What writers of different years and back ends call the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True)
class Calls:
    """Names of the runtime calls that a back end makes."""

    launch: str = "cudaLaunchKernel"
    copy: str = "cudaMemcpyAsync"
    fill: str = "cudaMemsetAsync"
    graph: str = "cudaGraphLaunch"
    wait_stream: str = "cudaStreamSynchronize"
    wait_device: str = "cudaDeviceSynchronize"


@dataclass(frozen=True)
class Dialect:
    """Categories, keys and number formats of one kind of writer."""

    op: str = "cpu_op"
    annotation: str = "user_annotation"
    runtime: str = "cuda_runtime"
    driver: str = "cuda_driver"
    kernel: str = "kernel"
    memcpy: str = "gpu_memcpy"
    memset: str = "gpu_memset"
    python: str = "python_function"
    device_flow: tuple[str, str] = ("ac2g", "ac2g")
    """Category and name of the arrow from a launch to its kernel."""
    autograd_flow: tuple[str, str] | None = ("fwdbwd", "fwdbwd")
    external_id: str = "External id"
    """Key of the operator's id in runtime and device events."""
    input_dims: str = "Input Dims"
    exact: bool = True
    """Microseconds with three decimals; else whole microseconds, cut."""
    string_tids: bool = False
    """Threads are strings in X and f events, numbers elsewhere; streams are `stream 7`."""
    memory_totals: bool = True
    """`[memory]` has a category, an address and totals."""
    ids_are_correlations: bool = False
    """`External id` of runtime and device events repeats the correlation."""
    device_args: Literal["cuda", "rocm", "xpu"] = "cuda"
    memory_device_type: int = 1
    span_pid: str = "Spans"
    style_2021: bool = False
    calls: Calls = field(default_factory=Calls)
    op_args: Mapping[str, object] = field(default_factory=dict)
    """What this writer adds to the args of every operator."""


MODERN = Dialect()
"""CUDA since 2024: nanoseconds, `ac2g`, `fwdbwd`."""

ERA_2022 = Dialect(
    exact=False,
    device_flow=("async_cpu_to_gpu", "async_gpu"),
    autograd_flow=("forward_backward", "fwd_bwd"),
    ids_are_correlations=True,
)
"""CUDA from late 2021 to late 2022: whole microseconds, `External id` equal to the correlation."""

OLD = Dialect(
    op="Operator",
    annotation="Operator",
    runtime="Runtime",
    driver="Runtime",
    kernel="Kernel",
    memcpy="Memcpy",
    memset="Memset",
    python="Python",
    device_flow=("async", "launch"),
    autograd_flow=None,
    external_id="external id",
    input_dims="Input dims",
    exact=False,
    string_tids=True,
    memory_totals=False,
    span_pid="Traces",
    style_2021=True,
    op_args={"Device": 0, "Trace name": "PyTorch Profiler", "Trace iteration": 0},
)
"""torch 1.8 to 1.10."""

ROCM = replace(
    MODERN,
    device_args="rocm",
    memory_device_type=6,
    calls=Calls(
        "hipLaunchKernel",
        "hipMemcpyWithStream",
        "hipMemsetAsync",
        "hipGraphLaunch",
        "hipStreamSynchronize",
        "hipDeviceSynchronize",
    ),
)
"""AMD: hip calls in the category of CUDA's runtime, no occupancy, no pinned memory in copy names."""

XPU = replace(
    MODERN,
    runtime="xpu_runtime",
    driver="xpu_driver",
    device_args="xpu",
    memory_device_type=12,
    calls=Calls(
        "urEnqueueKernelLaunch",
        "urEnqueueUSMMemcpy",
        "urEnqueueUSMFill",
        "urCommandBufferEnqueueExp",
        "urQueueFinish",
        "urQueueFinish",
    ),
)
"""Intel GPUs through the XPU plug-in."""

DIALECTS: Mapping[str, Dialect] = {
    "modern": MODERN,
    "era_2022": ERA_2022,
    "old": OLD,
    "rocm": ROCM,
    "xpu": XPU,
}
