"""Recordings of the capture of graphs, and of their replay: a small model whose layers run three kernels each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from .dialects import MODERN, ROCM
from .hardware import A100, MI300X
from .trace import TraceBuilder, distributed_info

_POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int)"
SILU = _POINTWISE.format("silu_kernel")
ADD = _POINTWISE.format("CUDAFunctor_add<c10::Half>")
EMBEDDING = "void at::native::indexSelectLargeIndex<c10::Half, long, unsigned int, 2, 2, -2, true>(int)"
CALL = 10
"""Microseconds from one captured call to the next."""


@dataclass(frozen=True)
class Node:
    """One node of a graph: the operator that was captured, and the kernel, copy or fill that it runs."""

    operator: str
    rows: int
    kernel: str
    layer: int | None = None
    kind: str = "kernel"
    width: int = 64

    @property
    def shapes(self) -> list[list[int]]:
        """Input shapes of the operator."""
        return [[self.rows, self.width], [self.width, self.width]]


def model(layers: int = 20, *, batch: int = 8, tile: str = "64x64") -> list[Node]:
    """An embedding, layers of a product, an activation and a sum, and a product at the end: 3 * layers + 2 nodes."""
    layer = (
        Node("aten::mm", batch, f"Cijk_MT{tile}"),
        Node("aten::silu", batch, SILU),
        Node("aten::add", batch, ADD),
    )
    body = [replace(node, layer=number) for number in range(layers) for node in layer]
    return [
        Node("aten::embedding", batch, EMBEDDING),
        *body,
        Node("aten::mm", batch, f"Cijk_MT{tile}_head", width=512),
    ]


@dataclass(frozen=True)
class Vendor:
    """How a runtime writes captures: HIP's launch calls name their kernels, CUDA's do not."""

    is_hip: bool = True

    def builder(self, rank: int | None = None) -> TraceBuilder:
        """A recording without events."""
        info = None if rank is None else distributed_info(rank, 8)
        if self.is_hip:
            return TraceBuilder(ROCM, devices=(MI300X,), distributed=info)
        return TraceBuilder(MODERN, devices=(A100,), distributed=info)

    def call(self, name: str) -> str:
        """A call of the runtime."""
        return ("hip" if self.is_hip else "cuda") + name


HIP, CUDA = Vendor(), Vendor(is_hip=False)


def captured(
    graphs: Iterable[tuple[str, Sequence[Node]]], vendor: Vendor = HIP, *, rank: int | None = None, ends: bool = True
) -> TraceBuilder:
    """A recording of captures: each graph with the mark of a server around it (none where it is empty).

    Before each capture the model runs once, and after it a kernel is launched: these calls are in no graph.
    """
    trace = vendor.builder(rank)
    at = 0
    for mark, nodes in graphs:
        start = at
        warm = trace.launch(vendor.call("LaunchKernel"), at + 1, 2, args=_named(vendor, "warm_up"))
        trace.kernel("warm_up", at + 4, 3, correlation=warm)
        trace.launch(vendor.call("StreamBeginCapture"), at + CALL, 1)
        at = _capture(trace, vendor, nodes, at + 2 * CALL)
        if ends:
            trace.launch(vendor.call("StreamEndCapture"), at, 1)
        after = trace.launch(vendor.call("LaunchKernel"), at + 3, 2, args=_named(vendor, "after"))
        trace.kernel("after", at + 6, 1, correlation=after)
        at += CALL
        if mark:
            trace.annotation(mark, start, at - start)
    return trace


def _capture(trace: TraceBuilder, vendor: Vendor, nodes: Sequence[Node], at: int) -> int:
    """The calls of one capture, each in its operator; the calls of a layer in its module and line."""
    calls = {"kernel": "LaunchKernel", "copy": "MemcpyAsync", "fill": "MemsetAsync"}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for node in nodes:
        trace.op(node.operator, at, 6, shapes=node.shapes, types=["c10::Half", "c10::Half"])
        args = _named(vendor, node.kernel) if node.kind == "kernel" else {}
        trace.launch(vendor.call(calls[node.kind]), at + 2, 2, args=args)
        if node.layer is not None:
            first.setdefault(node.layer, at)
            last[node.layer] = at + 6
        at += CALL
    for layer, start in first.items():
        trace.python_function("model.py(12): forward", start, last[layer] - start)
        trace.module(f"Layer_{layer}", start, last[layer] - start, module=layer)
    return at


def _named(vendor: Vendor, kernel: str) -> dict[str, object]:
    return {"kernel": kernel, "grid": (1, 1, 1), "block": (64, 1, 1)} if vendor.is_hip else {}


def replayed(
    graphs: Iterable[Sequence[Node]],
    vendor: Vendor = HIP,
    *,
    mark: str = "",
    rank: int | None = None,
    output: list[list[int]] | None = None,
) -> TraceBuilder:
    """A recording of replays: each graph launched once, its events 1, 2, 3, ... us long over all launches together.

    Args:
        graphs: The nodes of each launch.
        vendor: How the runtime writes it.
        mark: Around each launch, of a server's step.
        rank: Of the process.
        output: Input shapes of an operator that takes the output of each graph.
    """
    trace = vendor.builder(rank)
    at, length = 0, count(1)
    for nodes in graphs:
        start = at
        ident = trace.launch(vendor.call("GraphLaunch"), at, 5)
        if output is not None:
            trace.op("aten::slice", at + 6, 1, shapes=output)
        at += 10
        for number, node in enumerate(nodes):
            dur = next(length)
            if node.kind == "kernel":
                ids = {} if vendor.is_hip else {"graph id": 3, "graph node id": (3 << 32) + number}
                trace.kernel(node.kernel, at, dur, correlation=ident, args=ids)
            else:
                category = "gpu_memcpy" if node.kind == "copy" else "gpu_memset"
                name = "Memcpy DtoD (Device -> Device)" if node.kind == "copy" else "Memset (Device)"
                details = {"device": 0, "stream": 7, "correlation": ident, "bytes": 64}
                trace.on_device(category, name, (at, dur), (0, 7), details)
            at += dur + 1
        if mark:
            trace.annotation(mark, start, 9)
    return trace
