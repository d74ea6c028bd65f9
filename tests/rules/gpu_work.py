"""A GPU-bound program: operators with the kernels that they launch, step after step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.builders import TraceBuilder
from tests.builders.hardware import V100, Device
from tests.builders.timeline import Host, Stream, Work, finish

MATRIX_UNITS = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
TF32_CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4"
ADDITION = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array>"
FILLED = (4096, 1, 1)
"""A grid that fills any GPU."""


@dataclass(frozen=True)
class Call:
    """An operator and the kernels that it launches; `within` are operators around it, the outermost first."""

    op: str
    kernels: Sequence[Work]
    shapes: Sequence[Sequence[object]] | None = None
    types: Sequence[str] | None = None
    concrete: Sequence[str] | None = None
    within: Sequence[str] = ()


def kernel(name: str, dur: int, **details: object) -> Work:
    """A kernel that fills the device, for a duration in microseconds."""
    return Work(name, dur, **{"grid": FILLED, **details})  # type: ignore[arg-type]


def product(name: str, dur: int, shapes: Sequence[Sequence[object]] | None = None, dtype: str = "float") -> Call:
    """A product of two matrices, of large ones unless shapes are given, by one kernel."""
    sides = shapes or [[2048, 2048], [2048, 2048]]
    return Call("aten::mm" if len(sides[0]) == 2 else "aten::bmm", [kernel(name, dur)], sides, [dtype, dtype])


def addition(dur: int) -> Call:
    """A sum of two tensors of the size that takes so long at 720 GB/s: 12 bytes per element."""
    elements = dur * 60_000
    shapes, types = [[elements], [elements], []], ["float", "float", "Scalar"]
    return Call("aten::add", [kernel(ADDITION, dur)], shapes, types)


def training(
    calls: Iterable[Call], *, steps: int = 3, device: Device | None = V100, shapes: bool = True, streams: int = 1
) -> TraceBuilder:
    """Steps that launch everything and wait for it; the host has little to do.

    Args:
        calls: Of each step.
        steps: How many.
        device: None: the header names none.
        shapes: Whether inputs are recorded.
        streams: Calls go to them in turn.
    """
    trace = TraceBuilder(devices=(device,) if device else (), options=("record_shapes",) if shapes else ())
    host, queues = Host(trace, at=10), [Stream(7 + number) for number in range(streams)]
    every = list(calls)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            for position, call in enumerate(every):
                _run(host, call, queues[position % streams], shapes=shapes)
            host.wait(*queues)
    return finish(trace)


def gpu_alone(trace: TraceBuilder) -> TraceBuilder:
    """What `activities=[ProfilerActivity.CUDA]` records of it: kernels, copies and the calls of the runtime."""
    trace.events = [event for event in trace.events if event["cat"] not in ("cpu_op", "user_annotation")]
    for event in trace.events:
        args = event.get("args")
        if isinstance(args, dict):
            args.pop("External id", None)
    trace.options = ()
    return trace


def _run(host: Host, call: Call, stream: Stream, *, shapes: bool) -> None:
    inputs = {"shapes": call.shapes, "types": call.types, "concrete": call.concrete} if shapes else {}
    with ExitStack() as stack:
        for outer in call.within:
            stack.enter_context(host.op(outer, 1, 0, **inputs))
        stack.enter_context(host.op(call.op, 1, 0, **inputs))
        for work in call.kernels:
            host.launch(work, stream, call_dur=2)
